"""What servers and models answer: HTTP responses of a chat endpoint, over a real connection, and the texts that are parsed strictly."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fakes import people
from fuzzing import fuzz, times
from mutation import as_json, mutants
from profiles import profile, write_profiles
from scripted_server import ask, key, parameters

from rlver.components.domain.persona import Persona
from rlver.components.endpoint.chat import ChatEndpoint
from rlver.components.endpoint.opening import open_endpoint
from rlver.components.personas.profiles import import_profiles
from rlver.components.users.llm.answers import UnparsableAnswer, read_appraisal, read_combined, read_opening, read_speech
from rlver.components.users.llm.prompts import quoted, said
from rlver.tasks.studies.authoring.answers import read_person
from rlver.tasks.studies.authoring.asking import Unusable
from rlver.tasks.studies.authoring.language import language_of
from rlver.tasks.studies.judge.judging import read_marks

APPRAISAL = {"content": "They ask what happened.", "target": "It misses me.", "activity": "Hm.", "feeling": "Still sad.", "change": -2}
SPEECH = {"thinking": "I go on.", "draft": "Well.", "message": "Well, my sister did not call.", "wants_to_end": False}
HAN_SPEECH = {"thinking": "再说一点。", "draft": "嗯。", "message": "姐姐还是没有打电话。", "wants_to_end": True}
PLACES = (
    "empathic_depth",
    "core_insight",
    "solution_crafting",
    "dialogue_guidance",
    "style_adaptability",
    "structured_creative",
    "solution_emotion",
)
MARKS = {"analysis": "Kind and clear.", **dict.fromkeys(PLACES, 3)}
PERSON = {
    "occupation": "a baker",
    "hobbies": ["rowing", "old clocks", "baking bread"],
    **{key: f"Anna does this in the {key} of every long day." for key in ("habits", "speech", "manner")},
}


def answer(value: Any) -> bytes:
    """JSON; inside a fence, as models often write it, for a list of one."""
    return b"```json\n" + as_json(value[0]) + b"\n```" if isinstance(value, list) and len(value) == 1 else as_json(value)


def text_of(content: bytes) -> str:
    """Also half characters, which JSON of a server may hold."""
    return content.decode("utf-8", "surrogateescape")


@pytest.fixture(scope="module")
def chinese(tmp_path_factory: pytest.TempPathFactory) -> Persona:
    return import_profiles(write_profiles(tmp_path_factory.mktemp("zh") / "profiles.jsonl", profile()), "train")[0]


@pytest.mark.parametrize(
    ("parse", "documents"),
    [
        (read_appraisal, [APPRAISAL]),
        (read_speech, [SPEECH, HAN_SPEECH]),
        (read_opening, [SPEECH]),
        (read_combined, [{"appraisal": APPRAISAL, "speech": SPEECH}]),
    ],
    ids=["appraisal", "speech", "opening", "combined"],
)
@times
def test_answers_of_a_simulated_user(parse: Callable[[str, Persona], Any], documents: list[Any], times: int, chinese: Persona) -> None:
    def read(content: bytes) -> None:
        text, answers = text_of(content), list[Any]()
        for persona in (people()[1][0], chinese):
            try:
                answers.append(parse(text, persona))
            except UnparsableAnswer as error:
                error.reason.encode()
                reason = error.reason
        if not answers:
            raise ValueError(reason)
        for one in answers:
            one.model_dump_json().encode()
            quoted(said("person", one.model_dump_json(), 4000)).encode()

    fuzz(mutants([*documents, *([one] for one in documents)], answer), read, times)


@times
def test_answers_of_a_judge(times: int) -> None:
    def read(content: bytes) -> None:
        read_marks(text_of(content), "en").model_dump_json().encode()

    fuzz(mutants([MARKS, [MARKS]], answer), read, times)


@times
def test_answers_of_an_author(times: int) -> None:
    def read(content: bytes) -> None:
        try:
            read_person(text_of(content), "Anna", language_of("en")).model_dump_json().encode()
        except Unusable as error:
            raise ValueError(error) from error

    fuzz(mutants([PERSON, [PERSON]], answer), read, times)


HEADS = {"Content-Type": "application/json", "Retry-After": "3", "X-Request-Id": "7"}
GOOD = {
    "id": "1",
    "choices": [
        {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "I am here.", "reasoning_content": "Be kind."}}
    ],
    "usage": {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15},
}
ERROR = {"error": {"message": "'max_tokens' is not supported, use max_completion_tokens", "code": "unsupported_parameter", "type": "x"}}
RESPONSES = [[200, HEADS, GOOD], [400, HEADS, ERROR], [429, HEADS, ERROR], [200, {"Transfer-Encoding": "chunked"}, GOOD]]
HTTP = [
    "HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 101 Switching Protocols\r\n\r\n", "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:9/\r\n\r\n", "HTTP/2 200\r\n\r\n",
    "Content-Length: -1\r\n", "Content-Length: 99999999999999999999\r\n", "Content-Encoding: gzip\r\n", "Content-Encoding: br, gzip, deflate\r\n", "\r\n\r\n",
    "Transfer-Encoding: chunked\r\n", "fffffffffffffffff\r\n", "0\r\n\r\n", "Set-Cookie: a=b\r\n", "Retry-After: 1e999\r\n", "Retry-After: " + "9" * 5_000 + "\r\n",
    "Retry-After: Wed, 99 Foo 99999 99:99:99 GMT\r\n", "X: " + "x" * 60_000 + "\r\n", "X: y\r\n" * 500, "Content-Type: text/event-stream\r\n\r\ndata: {}\n\n",
]  # fmt: skip


def response(value: Any) -> bytes:
    """A whole HTTP response out of [status, headers, body]."""
    status, headers, body = value if isinstance(value, list) and len(value) == 3 else (200, {}, value)
    content = as_json(body)
    heads = {str(name): str(part) for name, part in headers.items()} if isinstance(headers, dict) else {}
    if heads.get("Transfer-Encoding") == "chunked":
        content = f"{len(content):x}\r\n".encode() + content + b"\r\n0\r\n\r\n"
    else:
        heads["Content-Length"] = str(len(content))
    lines = [f"HTTP/1.1 {status} Because", *(f"{name}: {part}" for name, part in heads.items())]
    return "\r\n".join([*lines, "", ""]).encode("utf-8", "surrogatepass") + content


@times
def test_responses_of_a_chat_endpoint(times: int, tmp_path: Path) -> None:
    """Each over a connection of its own, as a new question; what was answered is stored, and is the same when it is read again."""
    sent = b""

    async def answer_as_told(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(int(re.findall(rb"content-length: (\d+)", head.lower())[0]))
            writer.write(sent)
            await writer.drain()
        writer.close()

    async def open_all(stack: contextlib.AsyncExitStack) -> ChatEndpoint:
        server = await stack.enter_async_context(await asyncio.start_server(answer_as_told, "127.0.0.1", 0))
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        tried = parameters(url, attempts=1, breaker_failures=10**9, answer_timeout_s=0.5, retry_after_most_s=0.001)
        return await stack.enter_async_context(open_endpoint(tried, key, tmp_path / "answers.db", replay=False))

    with asyncio.Runner() as runner:
        stack = contextlib.AsyncExitStack()
        endpoint = runner.run(open_all(stack))
        asked = itertools.count()

        def read(content: bytes) -> None:
            nonlocal sent
            sent = content
            question = ask(str(next(asked)))
            answered = runner.run(endpoint.chat(question))
            f"{answered.text}{answered.reasoning}{answered.finish_reason}".encode()
            assert 0 <= answered.tokens_in < 2**31 and 0 <= answered.tokens_out < 2**31
            again = runner.run(endpoint.chat(question))
            assert (again.text, again.tokens_out, again.cached) == (answered.text, answered.tokens_out, True)

        fuzz(mutants(RESPONSES, response, HTTP), read, times, "127.0.0.1")
        runner.run(stack.aclose())
