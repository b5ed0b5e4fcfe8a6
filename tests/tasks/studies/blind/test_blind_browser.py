"""The page in a real Chromium: a person on a phone, with keys and fingers, whose server is killed between two answers."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from blind_browser import FOUND, Browser, browser
from blind_server import server

from rlver.components.domain.files import read_yaml, write_json
from rlver.components.rollout.transcripts import load_transcripts
from rlver.tasks.studies.blind.answers import Choice, Replied, TalkBegun, TalkVerdict, read_answers
from rlver.tasks.studies.blind.comparing import pairs_of, shown

pytestmark = [pytest.mark.slow, pytest.mark.skipif(FOUND is None, reason="needs chromium")]

LEFT = "document.querySelector('#compare article[data-side=left] .reply').textContent"
FITS = "document.documentElement.scrollWidth <= innerWidth"


@pytest.fixture
def phone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("chromium")) as opened:
        opened.screen(390, 844, phone=True)
        yield opened


def answered(page: Browser) -> str:
    return str(page.value("document.querySelector('#progress span').textContent"))


def enter(page: Browser, url: str, name: str) -> None:
    page.open(url)
    page.click("#name")
    page.type(name)
    page.key("Enter")


def test_pairs_are_judged_by_keys_and_fingers_and_nothing_is_lost(project: Path, phone: Browser) -> None:
    command = ("one.jsonl", "other.jsonl", "--answers", "answers.jsonl")
    left: list[str] = []  # the side that was seen on the left, place by place
    with server(project, *command) as (process, url):
        enter(phone, url, "Ann")
        phone.wait("!document.getElementById('compare').hidden")
        assert phone.value(FITS), "the page is wider than the phone"
        left.append(phone.value(LEFT)[6])
        phone.click("#compare [data-choice=right]")
        phone.click("#compare [data-confidence='2']")
        assert phone.value(FITS)
        phone.click("#compare .save", times=2)  # a double click
        phone.wait("document.querySelector('#progress span').textContent === '1 of 8'")
        left.append(phone.value(LEFT)[6])
        for key in ("ArrowLeft", "3", "Enter"):
            phone.key(key)
        phone.wait("document.querySelector('#progress span').textContent === '2 of 8'")
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert phone.problems == []
        left.append(phone.value(LEFT)[6])
        for key in ("t", "1", "Enter"):
            phone.key(key)
        phone.wait("document.getElementById('trouble').textContent.includes('does not answer')")
        assert phone.value("document.querySelector('#compare [data-choice=tie]').getAttribute('aria-pressed')") == "true"
    with server(project, *command, "--port", str(urlsplit(url).port)) as (_, again):
        assert again == url
        phone.key("Enter")  # the same answer once more
        phone.wait("document.querySelector('#progress span').textContent === '3 of 8'")
        assert phone.value("document.getElementById('trouble').hidden")
        phone.reload()
        phone.wait("document.querySelector('#progress span').textContent === '3 of 8' && !document.getElementById('compare').hidden")
        phone.key("Backspace")
        phone.wait("document.querySelector('#compare [data-choice=tie]').getAttribute('aria-pressed') === 'true'")
        phone.key("ArrowRight")
        phone.key("r")
        phone.type("on second thought")
        phone.click("#compare .save")
        phone.wait("document.querySelector('#compare .reason').value === ''")
        assert answered(phone) == "3 of 8"
        for number in range(3, 8):
            left.append(phone.value(LEFT)[6])
            for key in ("ArrowRight", "1", "Enter"):
                phone.key(key)
            phone.wait(f"document.querySelector('#progress span').textContent === '{number + 1} of 8'")
        phone.wait("!document.getElementById('done').hidden")
    choices = [row for row in read_answers(project / "answers.jsonl").rows if isinstance(row, Choice)]
    other = {"a": "b", "b": "a"}
    expected = [(other[left[0]], 2), (left[1], 3), ("tie", 1), (other[left[2]], 1), *((other[side], 1) for side in left[3:])]
    assert [(choice.preference, choice.confidence) for choice in choices] == expected
    assert choices[3].reason == "on second thought" and choices[3].pair_id == choices[2].pair_id
    assert {choice.rater for choice in choices} == {"ann"} and len({choice.pair_id for choice in choices}) == 8


def test_words_of_a_model_are_only_words(project: Path, phone: Browser) -> None:
    attack = "<img src=x onerror=\"document.title='pwned'\"><script>document.title='pwned'</script>"
    rows = [json.loads(line) for line in (project / "one.jsonl").read_text().splitlines()]
    for row in rows:
        row["turns"][0]["assistant"] = attack
    (project / "one.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with server(project, "one.jsonl", "other.jsonl") as (_, url):
        enter(phone, url, attack[:40])
        phone.wait("!document.getElementById('compare').hidden")
        assert phone.value("[...document.querySelectorAll('#compare .reply')].some((one) => one.textContent.startsWith('<img src=x'))")
        assert phone.value("document.title") == "Blind comparison"
        assert phone.value("document.querySelectorAll('img, script:not([src])').length") == 0
        assert phone.problems == []


def test_a_laptop_shows_both_sides_and_the_keys(project: Path, phone: Browser) -> None:
    phone.screen(1280, 800)
    with server(project, "one.jsonl", "other.jsonl") as (_, url):
        enter(phone, url, "Ann")
        phone.wait("!document.getElementById('compare').hidden")
        places = phone.value("[...document.querySelectorAll('#compare article')].map((one) => one.getBoundingClientRect().x)")
        assert places[0] < 640 <= places[1] < 1280
        keys = phone.value("[...document.querySelectorAll('#compare kbd')].map((one) => one.textContent)")
        assert keys == ["←", "T", "→", "1", "2", "3", "R", "⌫", "Enter"]
        assert phone.value("document.querySelector('#compare kbd').getClientRects().length") == 1


def test_after_a_load_that_failed_nobody_sees_the_place_of_the_person_before(project: Path, phone: Browser) -> None:
    with server(project, "one.jsonl", "other.jsonl") as (_, url):
        enter(phone, url, "Ann")
        for key in ("ArrowLeft", "1", "Enter"):
            phone.wait("!document.getElementById('compare').hidden")
            phone.key(key)
        phone.wait("document.querySelector('#progress span').textContent === '1 of 8'")
        away = "(path, ...rest) => path.startsWith('/api/pair') ? Promise.reject() : kept(path, ...rest)"
        phone.value(f"window.kept = fetch, window.fetch = {away}, 0")
        phone.click("#who button")
        phone.click("#name")
        phone.type("Bo")
        phone.key("Enter")
        phone.wait("document.getElementById('trouble').textContent.includes('does not answer')")
        phone.value("window.fetch = kept, 0")
        phone.value("document.querySelector('#modes [data-mode=compare]').click()")
        phone.wait("!document.getElementById('compare').hidden")
        assert answered(phone) == "0 of 8"


HOLD = """window.kept ??= fetch, window.fetch = (path, ...rest) => !path.startsWith(PATH) ? kept(path, ...rest) : new Promise((done) => {
  window.fetch = kept;
  window.letGo = () => { const told = kept(path, ...rest); done(told); return told; };
}), 0"""


def hold(page: Browser, path: str) -> None:
    """What is asked of `path` next goes out when `letGo` is called."""
    page.value(HOLD.replace("PATH", f"'{path}'"))


def let_go(page: Browser) -> None:
    """And the page has time to take in what came."""
    page.value("letGo().then(() => new Promise((done) => setTimeout(done, 300)))")


def next_person(page: Browser, name: str) -> None:
    page.click("#who button")
    page.click("#name")
    page.type(name)
    page.key("Enter")
    page.wait(f"document.querySelector('#who span').textContent === '{name}'")


def test_a_pair_that_comes_late_is_not_judged_by_the_next_person(project: Path, phone: Browser) -> None:
    with server(project, "one.jsonl", "other.jsonl", "--answers", "answers.jsonl") as (_, url):
        enter(phone, url, "Ann")
        phone.wait("!document.getElementById('compare').hidden")
        hold(phone, "/api/pair")
        for key in ("ArrowLeft", "1", "Enter"):
            phone.key(key)
        phone.wait("Boolean(window.letGo)")
        next_person(phone, "Bo")
        phone.wait("!document.getElementById('compare').hidden")
        seen = phone.value(LEFT)
        let_go(phone)
        assert phone.value(LEFT) == seen and answered(phone) == "0 of 8"
        for key in ("ArrowRight", "3", "Enter"):
            phone.key(key)
        phone.wait("document.querySelector('#progress span').textContent === '1 of 8'")
    (_, of_bo) = [row for row in read_answers(project / "answers.jsonl").rows if isinstance(row, Choice)]
    pairs = pairs_of(*(load_transcripts(project / name) for name in ("one.jsonl", "other.jsonl"))).pairs
    (judged,) = [pair for pair in pairs if pair.pair_id == of_bo.pair_id]
    assert of_bo.rater == "bo" and seen in (shown(judged.a)[0]["reply"], shown(judged.b)[0]["reply"])


@pytest.fixture
def endpoint(project: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A chat endpoint with two models; one of them fails at a word."""

    class Models(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send({"data": [{"id": "model-x"}, {"id": "model-y"}]})

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            said = asked["messages"][-1]["content"]
            if asked["model"] == "model-y" and "storm" in said:
                self.send({"error": {"message": "model-y cannot"}}, 400)
                return
            number = sum(message["role"] == "user" for message in asked["messages"])
            message = {"content": f"{asked['model'][-1]} hears {said} ({number})", "reasoning_content": "secret-thought"}
            self.send({"choices": [{"message": message, "finish_reason": "stop"}]})

        def send(self, content: object, status: int = 200) -> None:
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    values = read_yaml(project / "params.yaml")
    values["policy"]["thinking"] = False
    values["endpoint"] |= {"attempts": 1, "backoff_first_s": 0.01, "backoff_most_s": 0.01}
    write_json(project / "params.yaml", values)  # JSON is YAML
    listener = ThreadingHTTPServer(("127.0.0.1", 0), Models)
    thread = threading.Thread(target=listener.serve_forever)
    thread.start()
    monkeypatch.setenv("RLVER_POLICY_URL", f"http://127.0.0.1:{listener.server_address[1]}/v1")
    yield
    listener.shutdown()
    thread.join()
    listener.server_close()


@pytest.mark.usefixtures("endpoint")
def test_a_talk_with_two_hidden_models(project: Path, phone: Browser) -> None:
    command = ("talk", "openai:model-x", "openai:model-y", "--answers", "talks.jsonl")
    replies = "[...document.querySelectorAll('.messages .side')].map((one) => one.innerText.replace(/\\n+/g, ' '))"
    ready = "!document.querySelector('.composer').inert"
    with server(project, *command) as (process, url):
        enter(phone, url, "Ann")
        for text in ("rain", "a storm", "sun"):
            phone.wait("!document.getElementById('talk').hidden && " + ready)
            phone.click("#message")
            phone.type(text)
            phone.key("Enter")
            phone.wait(f"document.querySelector('.messages li:last-child .user')?.textContent === '{text}' && {ready}")
        shown = phone.value(replies)
        assert len(shown) == 6 and phone.value(FITS)
        page = phone.value("document.documentElement.outerHTML")
        assert "secret-thought" not in page and "model-" not in page
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    with server(project, *command, "--port", str(urlsplit(url).port)):
        phone.reload()
        phone.wait("document.querySelectorAll('.messages li').length === 3")
        assert phone.value(replies) == shown and phone.value("document.getElementById('message').disabled")
        phone.click(".decide")
        for key in ("ArrowLeft", "3", "Enter"):
            phone.key(key)
        phone.wait("document.querySelector('.decide').textContent.startsWith('Saved')")
    rows = read_answers(project / "talks.jsonl").rows
    (begun,) = [row for row in rows if isinstance(row, TalkBegun)]
    x, y = ("Left", "Right") if begun.left == "a" else ("Right", "Left")
    error = "This side could not reply. You can go on: write again."
    assert sorted(shown[:2]) == sorted([f"{x} x hears rain (1)", f"{y} y hears rain (1)"])
    assert sorted(shown[2:4]) == sorted([f"{x} x hears a storm (2)", f"{y} {error}"])
    assert sorted(shown[4:]) == sorted([f"{x} x hears sun (3)", f"{y} y hears sun (2)"])
    failed = [row.b.error for row in rows if isinstance(row, Replied) and row.b.error]
    assert len(failed) == 1 and "model-y cannot" in failed[0]
    (verdict,) = [row for row in rows if isinstance(row, TalkVerdict)]
    assert (verdict.preference, verdict.confidence) == (begun.left, 3)


@pytest.mark.usefixtures("endpoint")
def test_replies_that_come_late_are_not_shown_to_the_next_person(project: Path, phone: Browser) -> None:
    words = "[document.querySelector('#talk .messages').textContent, document.getElementById('message').value]"
    with server(project, "talk", "openai:model-x", "openai:model-y", "--answers", "talks.jsonl") as (process, url):
        enter(phone, url, "Ann")
        for name, ends in (("Bo", False), ("Cy", True)):
            phone.wait("!document.getElementById('talk').hidden && !document.querySelector('.composer').inert")
            hold(phone, "/api/message")
            phone.click("#message")
            phone.type("my husband hits me")
            phone.key("Enter")
            phone.wait("Boolean(window.letGo)")
            next_person(phone, name)
            phone.wait("!document.getElementById('talk').hidden")
            assert phone.value(words) == ["", ""]
            if ends:  # then it is not an answer that comes, but none
                os.kill(process.pid, signal.SIGKILL)
                process.wait()
                phone.value("letGo().catch(() => 0)")
                phone.wait("document.getElementById('trouble').textContent.includes('does not answer')")
            else:
                let_go(phone)
            assert phone.value(words) == ["", ""]
            phone.value("window.letGo = undefined, 0")
    assert len([row for row in read_answers(project / "talks.jsonl").rows if isinstance(row, Replied)]) == 1
