"""A policy behind an OpenAI-compatible address: a real server on loopback, a small random Llama, and what people do to it."""

from __future__ import annotations

import json
import signal
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from chat_server import KEY, NAME, body, post, save_llama, served, streamed
from dialogue_project import complaint

from rlver.components.domain.files import read_jsonl
from rlver.components.policy.chat import ChatFormat
from rlver.components.policy.load import load_policy
from rlver.flows.cli import main

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_llama(tmp_path_factory.mktemp("models") / NAME)


@pytest.fixture(scope="module")
def url(llama: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(tmp_path_factory.mktemp("serving"), llama, "--port", "0") as (_, address):
        yield address


def said(response: httpx.Response) -> Any:
    assert response.status_code == 200, response.text
    return response.json()["choices"][0]


@pytest.mark.long
def test_the_model_is_listed_under_its_name(url: str) -> None:
    listed = httpx.get(f"{url}/models", trust_env=False).json()
    assert listed["object"] == "list" and [row["id"] for row in listed["data"]] == [NAME]
    assert httpx.get(f"{url}/models/{NAME}", trust_env=False).json() == listed["data"][0]
    assert httpx.get(f"{url}/models/other", trust_env=False).json()["error"]["code"] == "model_not_found"


@pytest.mark.parametrize("numbers", [{"temperature": 0}, {"temperature": 1.3}, {"top_p": 0.5}, {"stop": ["e", "zz"]}, {"seed": -1}])
def test_what_is_streamed_is_what_comes_at_once(url: str, numbers: dict[str, Any]) -> None:
    sent = body("Tell me more about it.", **{"max_tokens": 40, **numbers})
    at_once = post(url, sent).json()
    events = streamed(url, {**sent, "stream_options": {"include_usage": True}})
    *parts, counted = events
    assert parts[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert "".join(part["choices"][0]["delta"].get("content", "") for part in parts) == at_once["choices"][0]["message"]["content"]
    assert [part["choices"][0]["finish_reason"] for part in parts if part["choices"][0]["finish_reason"]] == [
        at_once["choices"][0]["finish_reason"]
    ]
    assert counted["choices"] == [] and counted["usage"] == at_once["usage"]
    assert all(part["object"] == "chat.completion.chunk" and part["id"] == parts[0]["id"] and part["usage"] is None for part in parts)


@pytest.mark.long
def test_the_same_request_and_seed_have_the_same_answer_whoever_else_asks_and_whatever_was_read_before(url: str) -> None:
    long = "I am so sorry, that sounds hard. Tell me more about it. " * 60  # more than one block of the prompt
    asked = [body(f"{long}{end}", seed=seed) for end in ("Why?", "What would you do?") for seed in (1, 2)] + [body(seed=3)]
    alone = [said(post(url, one)) for one in asked]
    assert len({json.dumps(one) for one in alone}) > 3
    again = [said(post(url, one)) for one in reversed(asked)]
    assert again[::-1] == alone
    with ThreadPoolExecutor(len(asked)) as together:
        assert list(together.map(lambda one: said(post(url, one)), asked)) == alone


def test_without_chance_the_reply_is_what_the_whole_model_finds_most_likely(url: str, llama: Path) -> None:
    import torch

    model, tokenizer = load_policy(llama)
    chat = ChatFormat(tokenizer, "Be kind.")
    ids = chat.start("I kept going.")
    begins = len(ids)
    with torch.no_grad():
        while len(ids) < begins + 20 and (len(ids) == begins or ids[-1] != chat.end_of_turn):
            ids.append(int(model(input_ids=torch.tensor([ids])).logits[0, -1].argmax()))
    messages = [{"role": "developer", "content": [{"type": "text", "text": "Be kind."}]}, {"role": "user", "content": "I kept going."}]
    response = post(url, {**body(), "messages": messages, "temperature": 0, "max_tokens": 20, "max_completion_tokens": 900})
    assert said(response)["message"]["content"] == chat.decode(ids[begins:])
    is_whole = ids[-1] == chat.end_of_turn
    assert said(response)["finish_reason"] == ("stop" if is_whole else "length")
    tokens = len(ids) - begins
    assert response.json()["usage"] == {"prompt_tokens": begins, "completion_tokens": tokens, "total_tokens": len(ids)}


def test_an_answer_can_be_sent_back_as_it_came(url: str) -> None:
    first = said(post(url, body(seed=1)))["message"]
    dumped = {**first, "tool_calls": None, "function_call": None, "audio": None, "annotations": []}  # as OpenAI's client writes its object
    for sent in (first, dumped):
        messages = [{"role": "user", "content": "I kept going."}, sent, {"role": "user", "content": "And now?"}]
        assert said(post(url, {**body(seed=2), "messages": messages}))["message"]["content"]


def test_a_stop_sequence_ends_the_reply_in_front_of_it(url: str) -> None:
    whole = said(post(url, body(max_tokens=40)))
    text = whole["message"]["content"]
    stop = text[len(text) // 2 : len(text) // 2 + 3]
    cut = said(post(url, body(max_tokens=40, stop=stop)))
    assert cut["message"]["content"] == text[: text.index(stop)] and cut["finish_reason"] == "stop"


REFUSED: list[tuple[Any, int, str | None, str]] = [
    (b"{", 400, None, "not JSON"),
    (b'{"model": "\xff"}', 400, None, "not UTF-8"),
    (b'{"temperature": NaN}', 400, None, "not JSON"),
    (b"[" * 100_000, 400, None, "not JSON"),
    ([], 400, None, "the body"),
    (body(temperature="hot"), 400, "temperature", "number"),
    (body(temperature=True), 400, "temperature", "number"),
    (body(temperature=3), 400, "temperature", "less than or equal to 2"),
    (body(top_p=0), 400, "top_p", "greater than 0"),
    (body(max_tokens=0), 400, "max_tokens", "greater than"),
    (body(seed=2**63), 400, "seed", "less than"),
    (body(stop=["a"] * 5), 400, "stop", "at most 4 items"),
    (body(n=2), 400, "n", "not supported"),
    (body(response_format={"type": "json_schema"}), 400, "response_format", "not supported"),
    (body(tools=[{}]), 400, "tools", "not supported"),
    (body(**{"\x1b[31mtop_k": 3}), 400, "\x1b[31mtop_k", "not a field"),
    (body(messages=[]), 400, "messages", "at least 1"),
    (body(messages=[{"role": "robot", "content": "a"}]), 400, "messages.0.role", "'user'"),
    (body(messages=[{"role": "assistant", "content": "a"}]), 400, "messages", "last message"),
    (body(max_tokens=5000), 400, "messages", "maximum context length is 1536 tokens"),
    (body(model="gpt-4o"), 404, "model", "does not exist"),
]


@pytest.mark.parametrize(("sent", "status", "param", "message"), REFUSED)
def test_what_cannot_be_answered_is_refused_in_the_form_that_clients_know(
    url: str, sent: Any, status: int, param: str | None, message: str
) -> None:
    response = post(url, sent)
    error = response.json()["error"]
    assert (response.status_code, error["param"]) == (status, param) and message in error["message"], error
    assert set(error) == {"message", "type", "param", "code"} and error["type"] == "invalid_request_error"


def test_half_a_character_is_read_as_a_replacement(url: str) -> None:
    assert said(post(url, body("\ud83d"))) == said(post(url, body("\ufffd")))


def test_foreign_pages_and_names_and_bodies_without_end_do_not_get_in(url: str) -> None:
    for headers, status in (
        ({"host": "evil.example"}, 421),
        ({"host": "127.0.0.1"}, 421),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"sec_fetch_site": "cross-site"}, 403),
        ({"content_type": "text/plain"}, 415),
    ):
        response = post(url, body(), **headers)
        assert response.status_code == status and response.json()["error"]["code"] == "not_allowed", headers
        assert not any(name.startswith("access-control") for name in response.headers)
    assert httpx.options(f"{url}/chat/completions", headers={"origin": "http://evil.example"}, trust_env=False).status_code == 403
    assert post(url, b" " * 10_000_000).status_code == 413
    assert httpx.get(f"{url}/nothing", trust_env=False).json()["error"]["code"] == "unknown_url"
    assert httpx.get(f"{url}/chat/completions", trust_env=False).status_code == 405
    assert said(post(url, body()))


def test_whoever_hangs_up_is_not_waited_for(url: str) -> None:
    address = httpx.URL(url)
    for stream in (False, True):
        sent = json.dumps(body(max_tokens=1400, stream=stream)).encode()
        with socket.create_connection((address.host, address.port or 0)) as connection:
            head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: {address.host}:{address.port}\r\nContent-Type: application/json\r\n"
            connection.sendall(f"{head}Content-Length: {len(sent)}\r\n\r\n".encode() + sent)
            time.sleep(0.3)
    assert said(post(url, body(max_tokens=1)))


@pytest.mark.long
def test_with_a_key_nobody_is_answered_without_it_and_a_stop_ends_in_order(llama: Path, tmp_path: Path) -> None:
    with served(tmp_path, llama, "--port", "0", RLVER_SERVE_KEY=KEY) as (process, url):
        for given in (b"", b"Bearer wrong", KEY, b"Bearer \xff", f"Basic {KEY}"):
            response = post(url, body(), authorization=given)
            assert response.status_code == 401 and response.json()["error"]["code"] == "invalid_api_key"
            assert response.headers["www-authenticate"] == "Bearer" and KEY not in response.text
        text = "\x1b]0;owned\x07 a secret"
        assert said(post(url, body(text), authorization=f"Bearer {KEY}"))
        assert post(url, body(model="\x1b[31mred"), authorization=f"Bearer {KEY}").status_code == 404
        with ThreadPoolExecutor(3) as waiting:
            long = [waiting.submit(post, url, body(max_tokens=1400, temperature=0.1), authorization=f"Bearer {KEY}") for _ in range(3)]
            time.sleep(0.5)
            process.send_signal(signal.SIGTERM)
            out, _ = process.communicate(timeout=60)
            ended = [one.result() for one in long]
        assert process.returncode == 0 and out.rstrip().endswith("stopped")
        assert {one.status_code for one in ended} <= {200, 503} and 503 in {one.status_code for one in ended}
        assert "\x1b" not in out and "secret" not in out and KEY not in out and "Traceback" not in out


def test_an_address_that_others_reach_needs_a_key(llama: Path, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "dvc.yaml").write_text("stages: {}\n")
    assert "set RLVER_SERVE_KEY" in complaint(capsys, "serve", llama, "--host", "192.0.2.1")
    assert "--context 9999: the model reads 1536 tokens at most" in complaint(capsys, "serve", "policy", llama, "--context", "9999")
    assert "a chat endpoint" in complaint(capsys, "serve", "openai:gpt")
    assert "no such model folder" in complaint(capsys, "serve", "nowhere")


def test_its_port_is_looked_for_at_its_own_address(
    llama: Path, project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "dvc.yaml").write_text("stages: {}\n")
    monkeypatch.setenv("RLVER_SERVE_KEY", KEY)
    assert "no free port at 192.0.2.1" in complaint(capsys, "serve", llama, "--host", "192.0.2.1")


def test_a_key_that_is_none_is_refused(
    llama: Path, project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "dvc.yaml").write_text("stages: {}\n")
    monkeypatch.setenv("RLVER_SERVE_KEY", "short")
    told = complaint(capsys, "serve", llama)
    assert "RLVER_SERVE_KEY must be 16 characters" in told and "short" not in told


@pytest.mark.long
def test_converse_talks_with_the_server_as_with_the_model_in_this_process_and_replays(
    url: str, llama: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without chance, until a reply is no text: half characters of random weights are not read again as the tokens that were sampled."""
    from ruamel.yaml import YAML

    (project / "dvc.yaml").write_text("stages: {}\n")
    values = YAML(typ="safe").load((project / "params.yaml").read_text())
    values["evaluation"]["temperature"] = 0.0
    YAML(typ="safe").dump(values, project / "params.yaml")
    assert main(["converse", "--policy", f"vllm:{url}", "--limit", "4", "-o", "served.jsonl"]) == 0
    assert main(["converse", "--policy", str(llama), "--limit", "4", "-o", "here.jsonl"]) == 0

    def first_turns(file: str) -> list[tuple[str, str, int]]:
        rows = [row for _, row in read_jsonl(project / file)]
        return [(row["turns"][0]["user"], row["turns"][0]["assistant"], row["turns"][0]["emotion"]) for row in rows]

    assert first_turns("served.jsonl") == first_turns("here.jsonl") and len({said for _, said, _ in first_turns("here.jsonl")}) == 4
    monkeypatch.setenv("RLVER_REPLAY", "1")
    assert main(["converse", "--policy", f"openai:{NAME}", "--limit", "4", "-o", "again.jsonl"]) == 0
    assert (project / "again.jsonl").read_bytes() == (project / "served.jsonl").read_bytes()
