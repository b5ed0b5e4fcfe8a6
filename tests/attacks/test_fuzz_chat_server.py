"""Requests to `rlver serve MODEL`, mutated from those of chat clients: each is answered, refused in OpenAI's form or hung up on.

In process the routes, the line of those who wait and the chat template are the real ones, behind uvicorn's HTTP and the guard; the model
alone is replaced, because it takes no bytes of a client. Over a socket the model is real as well, and small.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from time import process_time
from typing import Any

import httpx
import pytest
from chat_server import KEY, NAME, body, post, save_llama
from chat_server import served as served_model
from fuzzing import MOST_GROWTH_MIB, fuzz
from micro import micro_tokenizer
from mutation import mutants
from wire import ServedInProcess, as_request, highest_mib, over_a_socket, refuse_refused, statuses_of

from rlver.components.policy.chat import ChatFormat
from rlver.components.policy.sampler import Sample, SampleRequest
from rlver.tasks.runtime.chat_server.replies import ReplyQueue
from rlver.tasks.runtime.chat_server.routes import ChatServer, chat_guard
from rlver.tasks.runtime.guard import hosts_of
from rlver.tasks.runtime.web import config_of

HOST = "127.0.0.1:7600"
HEADERS = {"Host": HOST, "Accept": "*/*", "Authorization": f"Bearer {KEY}", "User-Agent": "OpenAI/Python"}
RAWS = (
    *("/v1/models/" + "x" * 60_000, "/v1/models/%ED%A0%80", "/v1/models/../..", "/v1/models/%2e%2e/%00", "/v1/chat/completions/", "//v1/models"),
    *("http://evil.example/v1/models", "*", "/v1/models?" + "&" * 9_000, "TRACE", "CONNECT", "PRI", "OPTIONS", "é"),
    *("chunked", "gzip, chunked", "100-continue", "websocket", "Upgrade", "close", "-5", "Transfer-Encoding: chunked\r\nContent-Length: 3"),
    *("Bearer", f"bearer  {KEY}", f"Bearer {KEY}\r\nAuthorization: Bearer x", "Basic " + "é" * 99, "Bearer " + "a" * 9_000, "evil.example", "null"),
    *('"system"', '"developer"', '"assistant"', '"tool"', '{"type": "text", "text": "\\ud83d"}', '[{"type": "image_url"}]', '[{"type": "text"}]'),
    *('["a", "b", "c", "d"]', '["' + "e" * 201 + '"]', '[""]', '"\\n"', '"e"', "1e-320", "2.0000001", "9223372036854775807", "-9223372036854775808"),
    *('{"include_usage": true}', '{"type": "json_object"}', '{"type": "text"}', '"<|im_end|>"', '"{{ messages }}"', '"' + "I am. " * 9_000 + '"'),
)  # fmt: skip


def said(sent: Any, **headers: str) -> dict[str, Any]:
    told = {"Content-Type": "application/json", **HEADERS, **headers}
    return {"method": "POST", "target": "/v1/chat/completions", "headers": told, "body": sent}


def asked(target: str, method: str = "GET", **headers: str) -> dict[str, Any]:
    return {"method": method, "target": target, "headers": {**HEADERS, **headers}, "body": None}


TALK = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": "心里很难受 😀"},
    {"role": "assistant", "content": "I am here."},
    {"role": "user", "content": [{"type": "text", "text": "My sister "}, {"type": "text", "text": "left."}]},
]
DOCUMENTS: list[Any] = [
    asked("/v1/models"),
    asked(f"/v1/models/{NAME}"),
    asked("/v1/models", "HEAD"),
    said(body()),
    said({**body(), "messages": TALK}, **{"Transfer-Encoding": "chunked"}),
    said(body(stream=True, stream_options={"include_usage": True}, stop=["sister", "xyz"])),
    said(body(temperature=0.0, top_p=0.5, n=1, user="ann", metadata={"a": "b"}, max_completion_tokens=9, frequency_penalty=0)),
    said(body(tools=[], tool_choice="none", response_format={"type": "text"}, logprobs=False, store=False), Origin=f"http://{HOST}"),
]
REFUSED: list[Any] = [
    asked("/v1/models", "OPTIONS", **{"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}),
    asked("/nothing"),
    said(body(model="gpt-4o")),
]
PIPELINED = [DOCUMENTS[:3], [DOCUMENTS[3]] * 3, [DOCUMENTS[5], DOCUMENTS[0]]]


WORDS = "I am so sorry. 😀 That sounds hard."


class Talkative:
    """Stands for the model: says the same words, a token at a time, whatever it reads."""

    capacity, temperature, top_p = 4_096, 1.0, 1.0

    def __init__(self, chat: ChatFormat) -> None:
        words = chat.tokenizer(WORDS, add_special_tokens=False)["input_ids"]
        self.words, self.said = [*words, chat.end_of_turn], 0

    def start(self) -> None: ...

    def forget(self, dialogue_id: str) -> None:
        self.said = 0

    async def sample(self, request: SampleRequest) -> Sample:
        assert 0 < len(request.context_ids) <= self.capacity and 0 <= request.seed < 2**63
        token = self.words[self.said % len(self.words)]
        self.said += 1
        return Sample((token,), (-1.0,), finished=token == self.words[-1])


class ServedModel(ServedInProcess):
    """The chat server as it is served. `lines` has what it says in its terminal."""

    def __init__(self) -> None:
        chat, self.lines = ChatFormat(micro_tokenizer(), "Be kind."), list[str]()
        sampler: Any = Talkative(chat)
        self.replies = ReplyQueue(sampler, chat, adds_system=True, say=self.lines.append)
        server = ChatServer(NAME, self.replies, 0)
        super().__init__(config_of(chat_guard(server.app(), hosts_of("127.0.0.1", 7600), KEY), "127.0.0.1", 7600))
        self.loop.run_until_complete(self.replies.begin())

    def read(self, content: bytes, at: int | None = None) -> None:
        """Raises AssertionError for what must not happen, and ValueError for a request that is refused."""
        written = self.ask(content, at)
        statuses = statuses_of(written)
        assert written.count(b"x-content-type-options: nosniff") >= sum(status != 400 for status in statuses), (
            "an answer without the headers"
        )
        assert KEY.encode() in content or all(status >= 400 for status in statuses), "an answer without the key"
        assert not (failed := [line for line in self.lines if "failed" in line]), failed[-1]
        self.lines.clear()
        refuse_refused(written)

    def end(self) -> None:
        self.loop.run_until_complete(self.replies.end())
        super().end()


@pytest.fixture
def served() -> Iterator[ServedModel]:
    opened = ServedModel()
    yield opened
    opened.end()


def reply_in(written: bytes) -> str:
    return str(json.loads(written.partition(b"\r\n\r\n")[2])["choices"][0]["message"]["content"])


def test_every_request_of_a_client_is_answered_as_it_is(served: ServedModel) -> None:
    for document in [*DOCUMENTS, *PIPELINED]:
        served.read(as_request(document))
    assert reply_in(served.ask(as_request(said(body(max_tokens=99))))) == WORDS
    for document in REFUSED:
        with pytest.raises(ValueError, match="refused"):
            served.read(as_request(document))


def test_a_request_may_be_cut_in_two_anywhere(served: ServedModel) -> None:
    content = as_request(DOCUMENTS[4])
    for cut in range(0, len(content), 5):
        served.read(content, at=cut)


@pytest.mark.parametrize("blanks", [5_000, 60_000])
def test_blanks_in_a_head_take_no_time(served: ServedModel, blanks: int) -> None:
    begun_s = process_time()
    with pytest.raises(ValueError, match="refused"):
        served.read(as_request(asked("/v1/models", X=" " * blanks + "\x00")))
    assert process_time() - begun_s < 1


@pytest.mark.parametrize("times", [300, pytest.param(10_000, marks=pytest.mark.slow)])
def test_no_request_breaks_the_chat_server(served: ServedModel, times: int) -> None:
    before = reply_in(served.ask(as_request(DOCUMENTS[3])))
    documents = [*DOCUMENTS, *DOCUMENTS, *REFUSED, *PIPELINED, *map(as_request, DOCUMENTS)]
    fuzz(mutants(documents, as_request, RAWS), served.read, times)
    assert reply_in(served.ask(as_request(DOCUMENTS[3]))) == before


@pytest.mark.slow
def test_no_request_breaks_the_process_of_the_chat_server(tmp_path: Path) -> None:
    llama = save_llama(tmp_path / NAME)
    with served_model(tmp_path, llama, "--port", "0", RLVER_SERVE_KEY=KEY) as (process, url):
        assert post(url, body(), authorization=f"Bearer {KEY}").is_success
        before = highest_mib(process.pid)
        fuzz(mutants([*DOCUMENTS, *PIPELINED], as_request, RAWS), over_a_socket(url, HOST), 1_000)
        assert highest_mib(process.pid) - before < MOST_GROWTH_MIB
        assert httpx.get(f"{url}/models", headers={"Authorization": f"Bearer {KEY}"}, trust_env=False).is_success
        assert post(url, body(), authorization=f"Bearer {KEY}").is_success
        process.terminate()
        told = process.communicate(timeout=60)[0]
        assert "Traceback" not in told and "failed" not in told and KEY not in told
