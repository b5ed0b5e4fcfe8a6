"""What somebody did to the page of `rlver blind`, or to its file: nobody is locked out, and nothing that was confirmed is lost."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from announced import ROOT
from blind_page import FIRST, HOST, SECOND, ScriptedPolicy, answer, client, message, talking
from blind_server import server
from blind_study import both, comparing
from ruamel.yaml import YAML
from starlette.testclient import TestClient

from rlver.components.domain.files import BadFile, write_jsonl
from rlver.components.domain.protocols import Reply
from rlver.tasks.runtime.appraisers import read_transcripts
from rlver.tasks.runtime.guard import RequestGuard, hosts_of
from rlver.tasks.studies.blind.answer_file import AnswerFile, NotSaved
from rlver.tasks.studies.blind.answers import Choice, PersonSaid, Replied, TalkBegun, Verdict, read_answers
from rlver.tasks.studies.blind.comparing import Comparing, study_of
from rlver.tasks.studies.blind.guard import page_guard
from rlver.tasks.studies.blind.page import Page
from rlver.tasks.studies.blind.pairs import pairs_of
from rlver.tasks.studies.blind.report import human_report, judged
from rlver.tasks.studies.blind.talking import NoSuchTalk
from rlver.tasks.studies.blind.wording import markdown

HALF = "\ud83d"  # of an emoji: what a text that was cut in the middle of one ends with


@pytest.fixture
def answers(tmp_path: Path) -> Iterator[AnswerFile]:
    with AnswerFile(tmp_path / "answers.jsonl", lambda line: None) as file:
        yield file


@pytest.fixture
def page(answers: AnswerFile) -> TestClient:
    return client(Page(comparing(answers), None, None, ()))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, dialogues in zip(("one", "other"), both(8), strict=True):
        write_jsonl(tmp_path / f"{name}.jsonl", [dialogue.model_dump(mode="json") for dialogue in dialogues])
    values = YAML(typ="safe").load((ROOT / "params.yaml").read_text(encoding="utf-8"))
    YAML(typ="safe").dump(values, tmp_path / "params.yaml")
    return tmp_path


def choices(path: Path) -> list[str]:
    return [row.answer_id for row in read_answers(path).rows if isinstance(row, Choice)]


def give(page: httpx.Client, place: int) -> httpx.Response:
    return page.post("/api/answer", json=answer(place, answer_id=f"{place:032x}"))


SERVE = ("one.jsonl", "other.jsonl", "--answers", "kept/a.jsonl", "--port", "0")


# Cookies. They belong to a host, not to a port: whatever else runs on it sets some, and the browser sends them all, in any order.


@pytest.mark.parametrize(
    "cookies",
    ['_xsrf={"a": 1}; rlver_blind=the-key', "[x]=1; rlver_blind=the-key", "é; rlver_blind=the-key", 'a="b; rlver_blind=the-key'],
)
def test_a_foreign_cookie_before_ours_locks_nobody_out(answers: AnswerFile, cookies: str) -> None:
    network = client(Page(comparing(answers), None, None, ()), "192.168.1.5", "the-key")
    assert network.get("/api/start", headers={"cookie": cookies.encode()}).is_success
    assert network.get("/api/start", headers={"cookie": cookies.replace("the-key", "another").encode()}).status_code == 403


def test_a_cookie_of_the_same_name_before_ours_locks_nobody_out(answers: AnswerFile) -> None:
    network = client(Page(comparing(answers), None, None, ()), "192.168.1.5", "the-key")
    assert network.get("/api/start", headers={"cookie": "rlver_blind=the-key; rlver_blind=another"}).is_success
    assert network.get("/api/start", headers=[("cookie", "a=b"), ("cookie", "rlver_blind=the-key")]).is_success


def test_pages_on_two_ports_of_one_address_keep_their_keys_apart(answers: AnswerFile) -> None:
    jar: dict[str, str] = {}
    asked = Page(comparing(answers), None, None, ())
    for port, key in ((7500, "the-key"), (7501, "another")):
        opened = TestClient(page_guard(asked.app(), hosts_of("192.168.1.5", port), key), base_url=f"http://192.168.1.5:{port}")
        jar |= dict(opened.get("/", params={"key": key}).cookies)
    sent = "; ".join(f"{name}={value}" for name, value in jar.items())
    assert client(asked, "192.168.1.5", "the-key").get("/api/start", headers={"cookie": sent}).is_success


# Requests that no page of ours sends.


@pytest.mark.parametrize("place", ["9" * 5000, "٣", "0" * 10 + "1"])
def test_a_place_that_is_no_number_is_an_error_of_the_request(page: TestClient, place: str) -> None:
    told = page.get("/api/pair", params={"rater": "ann", "place": place})
    assert (told.status_code, told.json()) == (409, {"error": "a place is a number"})


def test_pages_under_another_scheme_of_our_address_are_others(page: TestClient) -> None:
    headers = {"content-type": "application/json", "origin": HOST.replace("http", "https")}
    assert page.post("/api/answer", content=json.dumps(answer()), headers=headers).status_code == 403


def test_other_pages_are_told_nothing_by_browsers_that_only_send_an_origin(page: TestClient) -> None:
    assert page.get("/api/pair?rater=ann", headers={"origin": "http://evil.example"}).status_code == 403


def test_the_page_may_be_asked_for_its_head(page: TestClient) -> None:
    assert page.head("/").status_code == 200 and page.head("/", headers={"host": "evil.example:7500"}).status_code == 421


def test_blanks_are_no_message(answers: AnswerFile) -> None:
    talk = client(Page(None, talking(answers, ScriptedPolicy("a", ["x"]), ScriptedPolicy("b", ["y"])), None, ()))
    assert talk.post("/api/message", json=message(" \n ")).status_code == 422
    assert answers.rows == []


Receive = Callable[[], Awaitable[dict[str, Any]]]


def asgi(guarded: RequestGuard, receive: Receive, patience_s: float) -> int:
    """The status of a request whose body comes from `receive`."""
    told: list[int] = []
    headers = [(b"host", b"127.0.0.1:7500"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": "/api/answer", "query_string": b"", "headers": headers, "http_version": "1.1"}

    async def send(sent: Any) -> None:
        if sent["type"] == "http.response.start":
            told.append(sent["status"])

    asyncio.run(asyncio.wait_for(guarded(scope, receive, send), patience_s))  # type: ignore[arg-type]
    return told[0]


def test_a_body_in_thirty_thousand_pieces_is_read_in_no_time(answers: AnswerFile) -> None:
    pieces = [json.dumps(answer()).encode(), *[b" "] * 30_000]

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": pieces.pop(0) if len(pieces) % 2 else pieces.pop(), "more_body": bool(pieces)}

    begun = time.process_time()
    assert asgi(page_guard(Page(comparing(answers), None, None, ()).app(), hosts_of("127.0.0.1", 7500), None), receive, 60) == 200
    assert time.process_time() - begun < 1


def test_a_body_that_never_ends_is_not_waited_for(answers: AnswerFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlver.tasks.runtime.guard.PATIENCE_S", 0.1)

    async def receive() -> dict[str, Any]:
        await asyncio.sleep(60)
        return {}

    assert asgi(page_guard(Page(comparing(answers), None, None, ()).app(), hosts_of("127.0.0.1", 7500), None), receive, 1) == 408


@pytest.mark.slow
def test_a_body_that_is_too_long_is_not_read_to_its_end(project: Path) -> None:
    with server(project, *SERVE) as (_, url), socket.create_connection(("127.0.0.1", httpx.URL(url).port or 0), 3) as opened:
        head = f"POST /api/answer HTTP/1.1\r\nHost: 127.0.0.1:{httpx.URL(url).port}\r\nContent-Type: application/json\r\n"
        opened.sendall(f"{head}Content-Length: 10000000000\r\n\r\n".encode() + b"[" * 40_000)
        told = b""
        while part := opened.recv(65_536):  # until it hangs up
            told += part
        assert told.startswith(b"HTTP/1.1 413")


@pytest.mark.slow
def test_clients_that_stall_keep_nobody_out(project: Path) -> None:
    with server(project, *SERVE) as (process, url), ExitStack() as stack:
        rater = stack.enter_context(httpx.Client(base_url=url, trust_env=False, timeout=20))
        port = httpx.URL(url).port or 0
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (256, 256))
        starts = (
            b"",
            b"GET / HTTP/1.1\r\nHost: 127.0.0.1",
            b"POST /api/answer HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Length: 99\r\n" % port,
        )
        for number in range(400):
            stalled = stack.enter_context(socket.create_connection(("127.0.0.1", port), 20))
            stalled.sendall(starts[number % 3])
        assert rater.get("/api/pair?rater=ann").is_success and give(rater, 0).is_success
        process.send_signal(signal.SIGINT)
        assert "Traceback" not in process.communicate(timeout=20)[0]


@pytest.mark.slow
def test_a_client_that_stalls_is_hung_up_on(project: Path) -> None:
    with server(project, *SERVE) as (_, url), ExitStack() as stack:
        head = b"POST /api/answer HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Type: application/json\r\n" % (httpx.URL(url).port or 0)
        starts = (b"", head, head + b"Content-Length: 99\r\n\r\n{", head + b"Transfer-Encoding: chunked\r\n\r\n5\r\n")
        stalled = [stack.enter_context(socket.create_connection(("127.0.0.1", httpx.URL(url).port or 0), 40)) for _ in starts]
        for one, start in zip(stalled, starts, strict=True):
            one.sendall(start)
        for one in stalled:
            with suppress(ConnectionResetError):
                while one.recv(9_999):
                    pass


@pytest.mark.slow
def test_a_client_that_does_not_read_is_hung_up_on(project: Path) -> None:
    with server(project, *SERVE) as (_, url), socket.socket() as deaf:
        port = httpx.URL(url).port or 0
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.connect(("127.0.0.1", port))
        deaf.settimeout(1)
        asked = f"GET /page.js HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode() * 500
        ended = time.monotonic() + 60
        while is_open(deaf, asked):
            assert httpx.get(f"{url}api/pair?rater=ann", trust_env=False).is_success
            assert time.monotonic() < ended, "it waits for ever"


def is_open(client: socket.socket, content: bytes) -> bool:
    try:
        client.sendall(content)
    except TimeoutError:
        return True
    except OSError:
        return False
    return True


# Halves of characters, of which no file and no answer can be made.


def test_half_a_character_in_a_request_is_replaced(answers: AnswerFile) -> None:
    a = ScriptedPolicy("a", ["x"])
    asked = client(Page(comparing(answers), talking(answers, a, ScriptedPolicy("b", ["y"])), None, ()))
    sent = {"content-type": "application/json"}
    assert asked.post("/api/answer", content=json.dumps(answer(rater=f"Ann{HALF}", reason=f"warm{HALF}")), headers=sent).is_success
    state = asked.post("/api/message", content=json.dumps(message(f"Hm{HALF}", rater=f"Ann{HALF}")), headers=sent).json()
    verdict = {"rater": f"Ann{HALF}", "talk": state["talk"], "answer_id": SECOND, "choice": "tie", "confidence": 1, "reason": HALF}
    assert asked.post("/api/verdict", content=json.dumps(verdict), headers=sent).is_success
    rows = read_answers(answers.path).rows
    assert [(row.rater, row.reason) for row in rows if isinstance(row, Choice | Verdict)] == [("ann�", "warm�"), ("ann�", "�")]
    assert [row.text for row in rows if isinstance(row, PersonSaid)] == a.heard == ["Hm�"]


def test_half_a_character_in_a_reply_is_replaced(answers: AnswerFile) -> None:
    talk = client(Page(None, talking(answers, ScriptedPolicy("a", [f"x{HALF}"]), ScriptedPolicy("b", [RuntimeError(HALF)])), None, ()))
    told = talk.post("/api/message", json=message())
    assert told.is_success and {told.json()["messages"][0][side]["reply"] for side in ("left", "right")} == {"x�", None}
    assert [(row.a.reply, row.b.error) for row in read_answers(answers.path).rows if isinstance(row, Replied)] == [
        ("x�", "RuntimeError: �")
    ]
    assert talk.get("/api/talk?rater=ann").json() == told.json()


def test_half_a_character_in_transcripts_is_replaced(tmp_path: Path, answers: AnswerFile) -> None:
    sides = []
    for dialogues in both(8):
        lines = [dialogue.model_dump_json().replace("user ", "user \\ud83d").replace("secret-", "\\udc00") for dialogue in dialogues]
        (tmp_path / "one.jsonl").write_text("\n".join(lines))
        sides.append(read_transcripts(tmp_path / "one.jsonl"))
    pairs = pairs_of(*sides).pairs
    study = study_of((f"a{HALF}", f"b{HALF}"), pairs, 7, 6, 0.5)
    answers.begin(study)
    page = client(Page(Comparing(pairs, study, answers, lambda: "now"), None, None, ()))
    assert page.get("/api/pair?rater=ann").json()["left"][0]["user"].startswith("user �")
    assert page.post("/api/answer", json=answer()).is_success
    assert choices(answers.path) == [FIRST]


# Talks.


def test_the_talk_that_ends_for_another_one_was_quiet_for_longest_and_is_told_why(answers: AnswerFile) -> None:
    a = ScriptedPolicy("a", ["x"])
    talk = client(Page(None, talking(answers, a, ScriptedPolicy("b", ["y"]), most_open=2), None, ()))
    ann = talk.post("/api/message", json=message()).json()
    bo = talk.post("/api/message", json=message(rater="bo", message_id=SECOND)).json()
    talk.post("/api/message", json=message(talk=ann["talk"], message_id="3" * 32))  # the first one goes on
    assert talk.post("/api/message", json=message(rater="cy", message_id="4" * 32)).is_success
    assert talk.post("/api/message", json=message(talk=ann["talk"], message_id="5" * 32)).is_success
    refused = talk.post("/api/message", json=message(rater="bo", talk=bo["talk"], message_id="6" * 32))
    assert refused.status_code == 409 and "to make room for other people" in refused.json()["error"]
    assert "to make room" in talk.get("/api/talk?rater=bo").json()["ended"] and a.closed == 1
    verdict = {"rater": "bo", "talk": bo["talk"], "answer_id": FIRST, "choice": "left", "confidence": 1, "reason": ""}
    assert talk.post("/api/verdict", json=verdict).is_success


def test_no_more_talks_are_open_than_there_is_room_for(answers: AnswerFile) -> None:
    talk = talking(answers, ScriptedPolicy("a", ["x"], wait_s=0.2), ScriptedPolicy("b", ["y"]), most_open=2)

    async def at_once() -> list[Any]:
        speaking = [talk.speak(f"rater {number}", None, f"{number:032x}", "hello") for number in range(5)]
        return await asyncio.gather(*speaking, return_exceptions=True)

    told = asyncio.run(at_once())
    assert [isinstance(one, NoSuchTalk) for one in told] == [False, False, True, True, True]
    assert "in a moment" in str(told[2]) and sum(isinstance(row, TalkBegun) for row in answers.rows) == 2


def test_a_talk_is_still_there_when_the_next_one_could_not_be_begun(answers: AnswerFile, monkeypatch: pytest.MonkeyPatch) -> None:
    talk = talking(answers, ScriptedPolicy("a", ["x"]), ScriptedPolicy("b", ["y"]))
    state = asyncio.run(talk.speak("ann", None, FIRST, "hello"))
    with monkeypatch.context() as full:
        full.setattr(os, "write", lambda file, line: 0)
        with pytest.raises(NotSaved):
            asyncio.run(talk.speak("ann", None, SECOND, "hello from another tab"))
    assert talk.state("ann") == state and state["live"]


def test_replies_that_the_disk_refused_are_kept_and_not_asked_for_again(answers: AnswerFile) -> None:
    class Filling(ScriptedPolicy):
        async def reply(self, user: str) -> Reply:
            limits.append(resource.prlimit(0, resource.RLIMIT_FSIZE, (answers.path.stat().st_size, resource.RLIM_INFINITY)))
            return await super().reply(user)

    limits: list[tuple[int, int]] = []
    a = Filling("a", ["x"])
    talk = client(Page(None, talking(answers, a, ScriptedPolicy("b", ["y"])), None, ()))
    try:
        assert talk.post("/api/message", json=message()).status_code == 507
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits[0])
    state = talk.post("/api/message", json=message()).json()
    assert {state["messages"][0][side]["reply"] for side in ("left", "right")} == {"x", "y"}
    assert a.heard == ["I am sad."] and sum(isinstance(row, Replied) for row in read_answers(answers.path).rows) == 1


def test_other_words_under_the_same_number_are_not_dropped_in_silence(answers: AnswerFile) -> None:
    talk = client(Page(None, talking(answers, ScriptedPolicy("a", ["x"]), ScriptedPolicy("b", ["y"])), None, ()))
    assert talk.post("/api/message", json=message()).is_success
    assert talk.post("/api/message", json=message("And then?")).status_code == 409


def test_a_talk_does_not_grow_without_end(answers: AnswerFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlver.tasks.studies.blind.talking.MOST_MESSAGES", 2, raising=False)
    talk = client(Page(None, talking(answers, ScriptedPolicy("a", ["x"]), ScriptedPolicy("b", ["y"])), None, ()))
    state = talk.post("/api/message", json=message()).json()
    told = [talk.post("/api/message", json=message(talk=state["talk"], message_id=f"{number:032x}")).status_code for number in (1, 2)]
    assert told == [200, 409]
    assert talk.post("/api/message", json=message(talk=state["talk"])).is_success, "a message that is there may be sent again"


# The file of answers.


def test_the_same_number_for_another_answer_loses_none(page: TestClient, answers: AnswerFile) -> None:
    for sent in (answer(0), answer(1), answer(1, rater="Bo"), answer(1), answer(1, confidence=3)):
        assert page.post("/api/answer", json=sent).is_success
    rows = [row for row in read_answers(answers.path).rows if isinstance(row, Choice)]
    assert [(row.rater, row.confidence) for row in rows] == [("ann", 2), ("ann", 2), ("bo", 2), ("ann", 3)]


def test_a_name_is_text_in_the_report(answers: AnswerFile) -> None:
    page = client(Page(comparing(answers), None, None, ()))
    for place, rater in enumerate(("![x](http://evil.example/x)", "<img src=x>", "a|b", "a\\|b`c`")):
        assert page.post("/api/answer", json=answer(0, rater=rater, answer_id=f"{place:032x}")).is_success
    rows = markdown(human_report(judged(answers.rows), 100, 7, None)).splitlines()
    for name in ("!\\[x](http://evil.example/x)", "\\<img src=x>", "a\\|b", "a\\\\\\|b\\`c\\`"):
        assert any(row.startswith(f"| {name} | 1 |") for row in rows), name


def deleted(path: Path) -> None:
    path.unlink()


def deleted_with_its_folder(path: Path) -> None:
    path.unlink()
    path.parent.rmdir()


def replaced(path: Path) -> None:
    path.with_name("new").write_text("somebody's\n")
    path.with_name("new").rename(path)


def cut(path: Path) -> None:
    os.truncate(path, 0)


def moved_behind_a_link(path: Path) -> None:
    path.rename(path.with_name("moved"))
    path.symlink_to("nowhere")


each_attack = pytest.mark.parametrize(
    ("attack", "goes_on_in"),
    [
        (deleted, "a.jsonl"),
        (deleted_with_its_folder, "a.jsonl"),
        (replaced, "a.2.jsonl"),
        (cut, "a.2.jsonl"),
        (moved_behind_a_link, "a.2.jsonl"),
    ],
)


@each_attack
def test_answers_outlive_their_file(tmp_path: Path, attack: Callable[[Path], None], goes_on_in: str) -> None:
    path, said = tmp_path / "kept" / "a.jsonl", list[str]()
    with AnswerFile(path, said.append) as file:
        check_that_answers_outlive(path, attack, goes_on_in, client(Page(comparing(file), None, None, ())))
    assert len(said) == 1 and f"every answer is in {path.with_name(goes_on_in)}" in said[0]


@pytest.mark.slow
@each_attack
def test_answers_outlive_their_file_in_a_process(project: Path, attack: Callable[[Path], None], goes_on_in: str) -> None:
    with server(project, *SERVE) as (process, url):
        check_that_answers_outlive(project / "kept" / "a.jsonl", attack, goes_on_in, httpx.Client(base_url=url, trust_env=False))
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=20)[0]
        assert f"every answer is in kept/{goes_on_in}" in said and "Traceback" not in said


def check_that_answers_outlive(path: Path, attack: Callable[[Path], None], goes_on_in: str, page: httpx.Client) -> None:
    goes_on = path.with_name(goes_on_in)
    assert give(page, 0).is_success
    attack(path)
    left = path.read_bytes() if path.is_file() else None
    refused = give(page, 1)
    assert refused.status_code == 507 and refused.json()["error"].startswith("Not saved")
    assert choices(goes_on) == [f"{0:032x}"], "what was confirmed is on the disk again"
    assert give(page, 1).is_success and give(page, 2).is_success
    assert choices(goes_on) == [f"{place:032x}" for place in range(3)] and goes_on.stat().st_mode & 0o077 == 0
    assert goes_on == path or left == (path.read_bytes() if path.is_file() else None), "somebody else's file is left alone"


def test_answers_whose_file_was_deleted_are_written_again_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    with AnswerFile(path, lambda line: None) as file:
        assert give(client(Page(comparing(file), None, None, ())), 0).is_success
        path.unlink()
    assert choices(path) == [f"{0:032x}"]


def test_answers_whose_file_was_deleted_on_a_full_disk_wait_for_room(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    with AnswerFile(path, lambda line: None) as file:
        page = client(Page(comparing(file), None, None, ()))
        assert give(page, 0).is_success
        path.unlink()
        before = resource.prlimit(0, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        try:
            assert [give(page, 1).status_code for _ in range(3)] == [507] * 3 and not path.exists()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert [give(page, 1).status_code for _ in range(2)] == [507, 200]
    assert choices(path) == [f"{0:032x}", f"{1:032x}"]


def test_a_rest_of_an_answer_that_cannot_be_taken_back_spoils_no_other(answers: AnswerFile, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise OSError(5, "Input/output error")

    page, write = client(Page(comparing(answers), None, None, ())), os.write
    begun = answers.path
    with monkeypatch.context() as disk:
        disk.setattr(os, "write", lambda file, line: write(file, line[:20]))
        disk.setattr(os, "ftruncate", broken)
        assert page.post("/api/answer", json=answer(0)).status_code == 507
    assert [page.post("/api/answer", json=answer(0)).status_code for _ in range(2)] == [507, 200]
    assert answers.path != begun and choices(answers.path) == [FIRST]


@pytest.mark.parametrize("device", ["/dev/null", "/"])
def test_what_is_no_file_is_no_file_of_answers(device: str) -> None:
    with pytest.raises(BadFile, match="not a regular file"):
        read_answers(Path(device))
    with pytest.raises(BadFile, match="not a regular file"), AnswerFile(Path(device), print):
        pass


@pytest.mark.slow
@pytest.mark.parametrize("command", [("blind", "report"), ("blind", "one.jsonl", "other.jsonl", "--answers")])
def test_a_pipe_in_the_place_of_answers_is_refused_and_not_waited_for(project: Path, command: tuple[str, ...]) -> None:
    os.mkfifo(project / "pipe")
    line = (sys.executable, "-m", "rlver.flows.cli", *command, "pipe")
    told = subprocess.run(line, cwd=project, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=20)
    assert told.returncode == 1 and "error: pipe: not a regular file" in told.stderr and "Traceback" not in told.stderr


def test_a_file_of_somebody_else_is_not_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("do not lose this")
    with pytest.raises(BadFile, match="not a file of answers"), AnswerFile(path, print):
        pass
    assert path.read_text() == "do not lose this"


def test_a_last_line_that_is_too_deep_is_an_error_of_the_file(answers: AnswerFile) -> None:
    comparing(answers)
    whole = answers.path.read_bytes()
    answers.path.write_bytes(whole + b"[" * 5_000 + b"]" * 5_000 + b"\n")
    assert read_answers(answers.path).cut_off_bytes == 10_001
    answers.path.write_bytes(whole)
