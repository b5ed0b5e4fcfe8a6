"""A hostile server behind a chat endpoint or in a policy server's place, against the real client over loopback: it gets no key that is not
its own, moves no budget, ends no run and takes no memory."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import os
import socket
import sqlite3
import subprocess
import sys
import threading
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from fakes import people
from ruamel.yaml import YAML
from scripted_server import KEY, Asked, Reply, answer_to, ask, good, key, parameters, serving, serving_beside

from rlver.components.domain.files import write_jsonl
from rlver.components.endpoint.answers import digest_of
from rlver.components.endpoint.chat import ChatAnswer, EndpointError, EndpointRefused, EndpointUnavailable
from rlver.components.endpoint.opening import check_endpoint, open_endpoint
from rlver.components.policy.policy_server import PolicyServer, PolicyServerFailed, PolicyServerUnavailable
from rlver.components.policy.vllm_sampler import VllmSampler
from rlver.components.rollout.transcripts import load_transcripts
from rlver.components.settings.settings import load_settings
from rlver.flows.cli import main
from rlver.tasks.commands.chat import Terminal
from rlver.tasks.runtime import environment
from rlver.tasks.runtime.connections import to_user
from rlver.tasks.runtime.policies import refuse_served
from rlver.tasks.studies.authoring.answers import Unusable, read_person
from rlver.tasks.studies.authoring.language import language_of

MODEL = "model-a"
HALF, REPLACED = "\ud83d", "\ufffd"
QUICK = {"attempts": 2, "answer_timeout_s": 20.0, "backoff_first_s": 0.01, "backoff_most_s": 0.02}
MOST_MEMORY = 64 * 2**20  # bytes; an answer may have 4 MiB


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repository_root: Path) -> Path:
    """A folder with two turns a dialogue and eight test personas, and nothing set; the current directory."""
    values = YAML(typ="safe").load((repository_root / "params.yaml").read_text(encoding="utf-8"))
    values["simulator"]["max_turns"] = 2
    values["policy"] |= {"thinking": False, "max_reply_tokens": 200, "max_context_tokens": 4000}
    values["endpoint"] |= QUICK
    values["evaluation"] |= {"bootstrap_samples": 200, "repeats": 1}
    YAML(typ="safe").dump(values, tmp_path / "params.yaml")
    (tmp_path / "dvc.yaml").write_text("stages: {}\n")
    write_jsonl(tmp_path / "data" / "personas" / "test.jsonl", [persona.model_dump(mode="json") for persona in people()[1]])
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("RLVER_")]:
        monkeypatch.delenv(name)
    return tmp_path


def only_model(number: int, asked: Asked, text: str = "I hear you.") -> Reply:
    return Reply(body=json.dumps({"data": [{"id": MODEL}]}).encode()) if not asked.body else good(asked, text=text)


def keys_sent(asked: list[Asked]) -> set[str | None]:
    assert asked
    return {one.headers.get("authorization") for one in asked}


def first(*bodies: bytes) -> Callable[[int, Asked], Reply]:
    """These bodies, then good answers."""
    return lambda number, asked: Reply(body=bodies[number]) if number < len(bodies) else good(asked)


def asked_once(path: Path, script: Callable[[int, Asked], Reply], **changes: Any) -> tuple[ChatAnswer, dict[str, float]]:
    """One question, its answer and what the ledger says of the calls."""

    async def run() -> tuple[ChatAnswer, dict[str, float]]:
        async with serving(script) as server, open_endpoint(parameters(server.url, **changes), key, path / "a.db", False) as endpoint:
            answer = await endpoint.chat(ask("a"))
            return answer, endpoint.ledger.summary()

    return asyncio.run(run())


# A key belongs to the origin it was set for.


def test_the_key_of_one_server_is_not_sent_to_another_that_is_named_on_the_command_line(
    project: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with serving_beside(only_model) as own, serving_beside(only_model) as other:
        (project / ".env").write_text(f"RLVER_POLICY_URL={own.url}\nRLVER_POLICY_KEY={KEY}\n")
        assert main(["converse", "--policy", f"vllm:{other.url}", "-o", "a.jsonl", "--limit", "1"]) == 0
    assert keys_sent(other.asked) == {None} and own.asked == []
    said = [line for line in caplog.messages if "RLVER_POLICY_KEY" in line]
    places = (own.url.removesuffix("/v1"), other.url.removesuffix("/v1"))
    assert len(said) == 1 and all(place in said[0] for place in places) and KEY not in said[0]


@pytest.mark.slow
def test_a_key_that_is_left_out_is_said_in_one_line(project: Path) -> None:
    with serving_beside(only_model) as own, serving_beside(only_model) as other:
        (project / ".env").write_text(f"RLVER_POLICY_URL={own.url}\nRLVER_POLICY_KEY={KEY}\n")
        done = chat_process(None, b"hello\n", "utf-8", "--policy", f"vllm:{other.url}")
    said = done.stderr.decode().splitlines()
    assert done.returncode == 0 and len(said) == 1 and said[0].startswith("RLVER_POLICY_KEY was set for http://127.0.0.1:"), said
    assert keys_sent(other.asked) == {None} and own.asked == []


@pytest.mark.parametrize("role", ["user", "policy"])
@pytest.mark.parametrize(
    ("url", "gets_it"),
    [
        ("https://api.example/v1", True),
        ("HTTPS://API.EXAMPLE:443/other", True),
        ("http://api.example/v1", False),
        ("https://api.example:8443/v1", False),
        ("https://api.example.evil.test/v1", False),
        ("https://evil.test/api.example/v1", False),
        ("https://evil.test\\.api.example/v1", False),
        ("https://api.example./v1", False),
    ],
)
def test_an_origin_is_scheme_host_and_port(project: Path, role: environment.Role, url: str, gets_it: bool) -> None:
    (project / ".env").write_text(f"RLVER_{role.upper()}_URL=https://api.example/v1\nRLVER_{role.upper()}_KEY={KEY}\n")
    server = environment.chat_server(role, url=url)
    assert (server.key(), server.key_left_out is None) == ((KEY, True) if gets_it else (None, False))


def test_a_key_of_the_file_does_not_follow_an_address_of_the_process(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also after `prepare`, which copies what is missing from the file into the process: for the children, both are of the process then."""
    settings = load_settings(project / "params.yaml")
    with serving_beside(only_model) as own, serving_beside(only_model) as other:
        (project / ".env").write_text(f"RLVER_USER_URL={own.url}\nRLVER_USER_KEY={KEY}\n")
        monkeypatch.setenv("RLVER_USER_URL", other.url)
        assert to_user(settings, []).listed() == [MODEL]
        environment.prepare(project)
        assert to_user(settings, []).listed() == [MODEL]
        assert keys_sent(other.asked) == {None} and own.asked == []
        monkeypatch.setenv("RLVER_USER_KEY", "sk-the-key-of-the-other-one")
        assert to_user(settings, []).listed() == [MODEL]
        assert keys_sent(other.asked[2:]) == {"Bearer sk-the-key-of-the-other-one"}, "what is set together belongs together"


# What a server says it has counted.

WHOLE = '{"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}], "usage": %s}'


@pytest.mark.parametrize(
    "usage",
    [
        '{"prompt_tokens": -1000000, "completion_tokens": 5}',
        '{"prompt_tokens": 5, "completion_tokens": -1}',
        '{"prompt_tokens": 1000000000000000000000000000000, "completion_tokens": 5}',
        '{"prompt_tokens": 5, "completion_tokens": 2147483648}',
        '{"prompt_tokens": true, "completion_tokens": 5}',
        '{"prompt_tokens": false, "completion_tokens": 5}',
        '{"prompt_tokens": 5, "completion_tokens": ""}',
        '{"prompt_tokens": 5, "completion_tokens": 0.0}',
        '{"prompt_tokens": 5, "completion_tokens": 5, "more": NaN}',
        '{"prompt_tokens": 5, "completion_tokens": 5, "more": -Infinity}',
        "[]",
        "false",
    ],
)
def test_a_number_that_is_no_count_of_tokens_is_a_malformed_answer_and_is_asked_again(tmp_path: Path, usage: str) -> None:
    answer, calls = asked_once(tmp_path, first((WHOLE % usage).encode()), budget=1.0)
    assert answer.text == answer_to("a") and (calls["calls"], calls["failed/malformed"]) == (2, 1)


@pytest.mark.parametrize("tokens", [-1_000_000, 10**30])
def test_no_count_of_a_server_lets_the_budget_go_down(tmp_path: Path, tokens: int) -> None:
    """Each call may cost 0.0002 and more of 0.001, and no answer can be used: a few calls, and the budget ends them."""
    spent: list[float] = []
    usage = {"prompt_tokens": tokens, "completion_tokens": tokens}

    async def run() -> None:
        body = json.dumps({"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}], "usage": usage}).encode()
        async with serving(lambda number, asked: Reply(body=body)) as server:
            settings = parameters(server.url, budget=0.001, attempts=2)
            async with open_endpoint(settings, key, tmp_path / "a.db", False) as endpoint:
                for number in range(9):
                    with pytest.raises(EndpointError):
                        await endpoint.chat(ask(str(number)))
                    spent.append(endpoint.ledger.summary()["money_at_most"])
            assert 1 <= len(server.asked) <= 4

    asyncio.run(run())
    assert spent == sorted(spent) and 0 < spent[0] <= spent[-1] <= 0.001


NESTED = "[" * 800 + "]" * 800


@pytest.mark.parametrize(
    "body",
    [
        (WHOLE % "{}").replace('"hi"', NESTED),
        WHOLE % f'{{"prompt_tokens": {NESTED}}}',
    ],
    ids=["nested text", "nested count"],
)
def test_json_that_breaks_readers_is_a_malformed_answer(tmp_path: Path, body: str) -> None:
    answer, calls = asked_once(tmp_path, first(body.encode()))
    assert answer.text == answer_to("a") and calls["failed/malformed"] == 1


def test_nested_lists_in_a_field_that_nobody_reads_end_no_run(tmp_path: Path) -> None:
    body = WHOLE % f'{{}}, "x": {NESTED}'
    answer, _ = asked_once(tmp_path, first(body.encode()))
    assert answer.text in {"hi", answer_to("a")}


@pytest.mark.parametrize("name", ['"a\\ud800b"', "[" * 900 + "]" * 900, '"\\u001b]0;owned\\u0007"', '"%s"' % ("a" * 100_000)])
def test_names_of_models_are_texts_that_can_be_shown(name: str) -> None:
    async def run() -> str:
        async with serving(lambda number, asked: Reply(body=f'{{"data": [{{"id": {name}}}, {{"id": "b"}}]}}'.encode())) as server:
            with pytest.raises(EndpointRefused, match="unknown model 'model-x'") as caught:
                await check_endpoint(parameters(server.url), key, ["model-x"])
            return str(caught.value)

    said = asyncio.run(run())
    assert said.isprintable() and len(said) < 500


def test_an_answer_of_a_writer_with_deep_lists_is_malformed_not_a_crash() -> None:
    with pytest.raises(Unusable, match="nested too deep"):
        read_person('{"habits": %s}' % ("[" * 900 + "]" * 900), "Ann", language_of("en"))


# Halves of characters.


def test_half_a_character_in_a_reply_ends_no_run_and_no_rerun(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving_beside(lambda number, asked: only_model(number, asked, f"I hear {HALF} you.")) as server:
        monkeypatch.setenv("RLVER_POLICY_URL", server.url)
        for out in ("a.jsonl", "b.jsonl"):
            assert main(["converse", "--policy", f"openai:{MODEL}", "-o", out, "--limit", "2"]) == 0
    replies = {turn.assistant for dialogue in load_transcripts(project / "a.jsonl") for turn in dialogue.turns}
    assert replies == {f"I hear {REPLACED} you."}
    assert (project / "a.jsonl").read_bytes() == (project / "b.jsonl").read_bytes(), "and the stored answers say the same"


def test_half_a_character_is_replaced_wherever_a_server_can_put_it(tmp_path: Path) -> None:
    message = {"content": f"a{HALF}b", "reasoning_content": f"c{HALF}"}
    body = json.dumps({"choices": [{"message": message, "finish_reason": f"stop{HALF}"}]}).encode()
    answer, _ = asked_once(tmp_path, first(body))
    assert (answer.text, answer.reasoning, answer.finish_reason) == (f"a{REPLACED}b", f"c{REPLACED}", f"stop{REPLACED}")


def store_with(path: Path, answer: str) -> None:
    """The file of answers as an older version left it, with this answer to the question `a`."""

    async def make() -> None:
        script = first()
        async with serving(script) as server, open_endpoint(parameters(server.url), key, path, False) as endpoint:
            await endpoint.chat(ask("a"))

    asyncio.run(make())
    with closing(sqlite3.connect(path)) as file, file:
        assert file.execute("UPDATE answers SET answer = ? WHERE digest = ?", (answer, digest_of(ask("a")))).rowcount == 1


def replayed(path: Path) -> ChatAnswer:
    async def run() -> ChatAnswer:
        async with open_endpoint(parameters("http://127.0.0.1:9/v1"), key, path, replay=True) as endpoint:
            return await endpoint.chat(ask("a"))

    return asyncio.run(run())


def test_half_a_character_in_an_old_file_of_answers_is_replaced_when_it_is_read(tmp_path: Path) -> None:
    kept = {"text": f"a{HALF}", "reasoning": HALF, "finish_reason": "stop", "tokens_in": 1, "tokens_out": 1, "seconds": 0.1}
    store_with(tmp_path / "a.db", json.dumps(kept))
    answer = replayed(tmp_path / "a.db")
    assert (answer.text, answer.reasoning) == (f"a{REPLACED}", REPLACED)


@pytest.mark.parametrize("damaged", ["{", "[]", "[" * 100_000, '{"text": 5}', '{"text": "a", "more": 1}', "1" * 5000])
def test_a_damaged_answer_in_the_file_is_named_in_one_line(tmp_path: Path, damaged: str) -> None:
    store_with(tmp_path / "a.db", damaged)
    with pytest.raises(ValueError, match=r"a\.db: the answer [0-9a-f]{12} is damaged"):
        replayed(tmp_path / "a.db")


def chat_process(url: str | None, given: bytes, encoding: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    surroundings = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "PYTHONIOENCODING": encoding}
    if url:
        surroundings["RLVER_POLICY_URL"] = url
    command = [sys.executable, "-m", "rlver.flows.cli", "chat", *arguments]
    return subprocess.run(command, input=given, env=surroundings, capture_output=True, timeout=120, check=False)


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["utf-8:strict", "utf-8:surrogateescape"])
def test_chat_goes_on_after_half_a_character_of_the_model_and_bytes_of_the_person_that_are_no_text(project: Path, encoding: str) -> None:
    with serving_beside(lambda number, asked: only_model(number, asked, f"I hear {HALF} you.")) as server:
        done = chat_process(server.url, b"caf\xe9\nbye then\n", encoding, "--policy", f"openai:{MODEL}")
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode().count(f"it > I hear {REPLACED} you.") == 2
    assert [asked.content for asked in server.asked if asked.body] == [f"caf{REPLACED}", "bye then"]


def test_a_line_of_the_terminal_holds_whole_characters_only() -> None:
    target = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="strict")
    terminal = Terminal(io.StringIO("caf\udce9\n"), target)
    assert terminal.ask("you") == f"caf{REPLACED}"
    terminal.show(HALF)


# Bodies without an end.


@dataclass
class Flood:
    """What a server sends to whoever asks, until the connection is closed or `most` bytes are out."""

    status: str
    headers: bytes
    piece: bytes
    most: int
    start: bytes = b""
    sent: int = 0
    was_cut: bool = False
    url: str = ""

    def pour(self, connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 " + self.status.encode() + b"\r\n" + self.headers + b"\r\n\r\n" + self.start)
        try:
            while self.sent < self.most:
                connection.sendall(self.piece)
                self.sent += len(self.piece)
        except OSError:
            self.was_cut = True


def chunk(content: bytes) -> bytes:
    return f"{len(content):x}\r\n".encode() + content + b"\r\n"


def endless(status: str) -> Flood:
    """300 MB of chunks."""
    return Flood(status, b"Content-Type: application/json\r\nTransfer-Encoding: chunked", chunk(b" " * 65_536), 300_000_000)


@cache
def packed_spaces() -> bytes:
    return gzip.compress(b" " * 100_000_000, compresslevel=1)


def bomb(status: str) -> Flood:
    """100 MB of spaces in gzip."""
    packed = packed_spaces()
    head = f"Content-Type: application/json\r\nContent-Encoding: gzip\r\nContent-Length: {len(packed)}"
    return Flood(status, head.encode(), packed, len(packed))


def nothing_in_gzip(status: str) -> Flood:
    """300 MB of empty blocks that unpack to nothing."""
    start, empty = b"\x1f\x8b\x08\0\0\0\0\0\0\xff", b"\0\0\0\xff\xff" * 13_107
    head = b"Content-Type: application/json\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked"
    return Flood(status, head, chunk(empty), 300_000_000, chunk(start))


@contextmanager
def pouring(flood: Flood) -> Iterator[Flood]:
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(10)
                request = b""
                while b"\r\n\r\n" not in request:
                    request += connection.recv(65_536)
                flood.pour(connection)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    flood.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    try:
        yield flood
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(20)


@contextmanager
def little_memory() -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < MOST_MEMORY, f"{peak:,} bytes"


FLOODS = pytest.mark.parametrize("kind", [endless, bomb, nothing_in_gzip])


@FLOODS
@pytest.mark.parametrize("status", ["200 OK", "400 Bad Request", "500 No"])
def test_an_answer_without_an_end_is_a_fault_of_one_line_and_the_connection_is_closed(
    tmp_path: Path, kind: Callable[[str], Flood], status: str
) -> None:
    async def run(url: str) -> str:
        async with open_endpoint(parameters(f"{url}/v1", attempts=1), key, tmp_path / "a.db", False) as endpoint:
            with pytest.raises(EndpointRefused if status.startswith("4") else EndpointUnavailable) as caught:
                await endpoint.chat(ask("a"))
            return str(caught.value)

    flood = kind(status)
    with pouring(flood), little_memory():
        said = asyncio.run(run(flood.url))
    assert ("a malformed answer (the body has more than" if status == "200 OK" else f"HTTP {status[:3]}") in said
    assert flood.sent < 30_000_000 and (kind is bomb or flood.was_cut)


@FLOODS
def test_a_list_of_models_without_an_end_is_refused(kind: Callable[[str], Flood]) -> None:
    flood = kind("200 OK")
    with pouring(flood), little_memory(), pytest.raises(EndpointUnavailable, match="the body has more than 4,194,304 bytes"):
        asyncio.run(check_endpoint(parameters(f"{flood.url}/v1"), key, [MODEL]))
    assert flood.sent < 30_000_000


@FLOODS
@pytest.mark.parametrize("status", ["200 OK", "500 No"])
def test_a_policy_server_without_an_end_is_refused(kind: Callable[[str], Flood], status: str) -> None:
    flood = kind(status)
    with pouring(flood), little_memory(), pytest.raises(PolicyServerFailed, match="the body has more than" if status[0] == "2" else "500"):
        PolicyServer(flood.url).version()
    assert flood.sent < 60_000_000


@FLOODS
def test_a_sample_without_an_end_is_refused(kind: Callable[[str], Flood]) -> None:
    flood = kind("200 OK")

    async def run() -> None:
        sampler = VllmSampler(flood.url, 0, 1.0, 1.0, 1, Path)
        try:
            await sampler.ask(b"{}")
        finally:
            await sampler.close()

    with pouring(flood), little_memory(), pytest.raises(PolicyServerFailed, match="the body has more than"):
        asyncio.run(run())
    assert flood.sent < 60_000_000


def test_nothing_packed_is_asked_for_and_what_comes_packed_is_read(tmp_path: Path) -> None:
    def packs(number: int, asked: Asked) -> Reply:
        assert asked.headers["accept-encoding"] == "identity"
        return Reply(body=gzip.compress(good(asked).body), headers=(("Content-Encoding", "gzip"),))

    answer, calls = asked_once(tmp_path, packs)
    assert answer.text == answer_to("a") and calls["calls"] == 1


@pytest.mark.parametrize("packing", ["br", "gzip, gzip", "zstd", "x"])
def test_what_is_packed_in_another_way_is_a_malformed_answer(tmp_path: Path, packing: str) -> None:
    def packs(number: int, asked: Asked) -> Reply:
        return Reply(body=good(asked, text="no").body, headers=(("Content-Encoding", packing),)) if number == 0 else good(asked)

    answer, calls = asked_once(tmp_path, packs)
    assert answer.text == answer_to("a") and calls["failed/malformed"] == 1


# A policy server that says other things than it must.


@pytest.mark.parametrize(
    "body",
    [b"[]", b"{}", b'{"weight_version": 5}', b"[" * 100_000, b"[" * 900 + b"]" * 900, b'{"weight_version": ["\\ud800"]}'],
)
def test_a_policy_server_that_says_nonsense_has_failed(body: bytes) -> None:
    with serving_beside(lambda number, asked: Reply(body=body)) as server, pytest.raises(PolicyServerFailed) as caught:
        PolicyServer(server.url).version()
    assert str(caught.value).isprintable() and len(str(caught.value)) < 600


def test_the_charset_of_an_error_unpacks_nothing() -> None:
    """`charset=zlib` is a codec of Python."""
    packed = zlib.compress(b" " * 100_000_000, 1)
    reply = Reply(500, packed, (("Content-Type", "text/plain; charset=zlib"),))
    with serving_beside(lambda number, asked: reply) as server, little_memory(), pytest.raises(PolicyServerFailed, match="got 500"):
        PolicyServer(server.url).version()


# Passwords in addresses.

PASSWORD = "hunter2"


@pytest.mark.parametrize("login", [f"me:{PASSWORD}", f"me:a@{PASSWORD}", f":{PASSWORD}", PASSWORD])
def test_the_password_of_a_policy_server_is_not_shown(login: str) -> None:
    with serving_beside(lambda number, asked: Reply(404, b"{}")) as server:
        url = server.url.replace("http://", f"http://{login}@").removesuffix("/v1")
        with pytest.raises((PolicyServerFailed, PolicyServerUnavailable)) as answered:
            PolicyServer(url).version()
    with pytest.raises((PolicyServerFailed, PolicyServerUnavailable)) as gone:
        PolicyServer(url).version()
    for said in (str(answered.value), str(gone.value)):
        assert "http://[hidden]@127.0.0.1:" in said and PASSWORD not in said


def test_the_state_of_a_policy_server_is_shown_without_its_password(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    body = b'{"weight_version": "v1", "is_paused": false}'
    with serving_beside(lambda number, asked: Reply(body=body)) as server:
        monkeypatch.setenv("RLVER_POLICY_SERVER_URL", server.url.replace("http://", f"http://me:{PASSWORD}@").removesuffix("/v1"))
        assert main(["serve", "status"]) == 0
    assert main(["serve", "status"]) == 1
    said = capsys.readouterr()
    assert PASSWORD not in said.out + said.err and "[hidden]@127.0.0.1" in said.out and "[hidden]@127.0.0.1" in said.err


@pytest.mark.parametrize("url", ["http://a b/", "http://[zz]/", "ftp://x", "nonsense", "http://h\t/", "http://h:0"])
def test_an_address_of_a_policy_server_that_is_none_is_said_in_one_line(url: str) -> None:
    with pytest.raises(PolicyServerFailed, match=r"must look like http://127\.0\.0\.1:7400"):
        PolicyServer(url).version()


def test_a_chat_endpoint_that_cannot_be_trained_is_named_without_its_password() -> None:
    with pytest.raises(ValueError, match="can be scored") as caught:
        refuse_served(f"vllm:http://me:{PASSWORD}@127.0.0.1/v1")
    assert PASSWORD not in str(caught.value)


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        (f"postgresql://me:a@{PASSWORD}@db/mlflow", "postgresql://[hidden]@db/mlflow"),
        (f"postgresql://me:a/{PASSWORD}@db/mlflow", "postgresql://[hidden]@db/mlflow"),
        (f"postgresql://db/mlflow?user=me&password={PASSWORD}&x=1", "postgresql://db/mlflow?user=me&password=[hidden]&x=1"),
        (f"https://host/v1?API_KEY={PASSWORD}", "https://host/v1?API_KEY=[hidden]"),
    ],
)
def test_an_address_is_shown_without_its_secrets_however_they_are_written(address: str, shown: str) -> None:
    assert environment.shown(address) == shown


def test_no_error_of_a_command_shows_a_password_whoever_wrote_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As of a library that quotes the address that it was given."""

    def fails(*_: object) -> None:
        raise OSError(f"cannot connect to http://me:{PASSWORD}@host/api")

    monkeypatch.setattr(environment, "project_root", fails)
    assert main(["serve", "status"]) == 1
    said = capsys.readouterr().err
    assert "http://[hidden]@host/api" in said and PASSWORD not in said
