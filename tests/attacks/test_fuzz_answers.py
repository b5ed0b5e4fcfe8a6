"""What servers and models answer: HTTP responses of a chat endpoint, over a real connection, and the texts that are parsed strictly."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fakes import people
from fuzzing import fuzz, times
from mutation import as_json, mutants
from profiles import profile, write_profiles
from responses import HTTP, RESPONSES, Told, response, told_server
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


@times
def test_responses_of_a_chat_endpoint(times: int, tmp_path: Path) -> None:
    """Each over a connection of its own, as a new question; what was answered is stored, and is the same when it is read again."""

    async def open_all(stack: contextlib.AsyncExitStack) -> tuple[Told, ChatEndpoint]:
        told = await stack.enter_async_context(told_server())
        tried = parameters(told.url, attempts=1, breaker_failures=10**9, answer_timeout_s=0.5, retry_after_most_s=0.001)
        return told, await stack.enter_async_context(open_endpoint(tried, key, tmp_path / "answers.db", replay=False))

    with asyncio.Runner() as runner:
        stack = contextlib.AsyncExitStack()
        told, endpoint = runner.run(open_all(stack))
        asked = itertools.count()

        def read(content: bytes) -> None:
            told.sent = content
            question = ask(str(next(asked)))
            answered = runner.run(endpoint.chat(question))
            f"{answered.text}{answered.reasoning}{answered.finish_reason}".encode()
            assert 0 <= answered.tokens_in < 2**31 and 0 <= answered.tokens_out < 2**31
            again = runner.run(endpoint.chat(question))
            assert (again.text, again.tokens_out, again.cached) == (answered.text, answered.tokens_out, True)

        fuzz(mutants(RESPONSES, response, HTTP), read, times, "127.0.0.1")
        runner.run(stack.aclose())
