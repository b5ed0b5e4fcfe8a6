"""What servers and models answer: HTTP responses of a chat endpoint, over a real connection, and the texts that are parsed strictly."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fakes import people
from fuzzing import fuzz, times
from mutation import as_json, mutants
from profiles import profile, write_profiles
from pydantic import BaseModel
from responses import HTTP, RESPONSES, response, told_endpoint
from scripted_server import ask

from rlver.components.domain.persona import Persona
from rlver.components.personas.profiles import import_profiles
from rlver.components.users.llm.answers import UnparsableAnswer, read_appraisal, read_combined, read_opening, read_speech
from rlver.components.users.llm.prompts import quoted, said
from rlver.tasks.studies.authoring.answers import read_person, read_scenario
from rlver.tasks.studies.authoring.asking import PersonaOrder, Unusable
from rlver.tasks.studies.authoring.casting import beginning
from rlver.tasks.studies.authoring.language import LANGUAGES
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

SCENARIO = {
    "topic": "a ferry that left early", "ages": [21, 48], "cause": "{name} put the anchor by the kiln and {other} took the ferry",
    "timeline": [{"day": day, "event": f"{{name}} mended the {thing} by the quarry", "feeling": "I felt small"} for day, thing in
                 ((-30, "barrel"), (-12, "lantern"), (-5, "quilt"), (-1, "saddle"))],
    "conflict": {"event": "{other} sold the cedar bench by the river", "people": "{name} and {other}", "inner_cause": "I want the bench back"},
    **{key: [f"I put the {thing} by the {key} of the harbour" for thing in ("acorn", "kettle", "walnut", "magnet")[:count]]
       for key, count in (("attempts", 2), ("openers", 3), ("steps", 4), ("motives", 4), ("hurts", 4))},
    **{key: [f"you put the {thing} by the {key} of the harbour" for thing in ("acorn", "kettle", "walnut", "magnet")[:count]]
       for key, count in (("deeds", 4), ("own_part", 3))},
    "present": "I sit by the pond and count the reeds", "feels_like": "a coat with wet sleeves",
    "lines": [f"I put the button number {number} by the window of the mill" for number in range(14)],
}  # fmt: skip


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


@pytest.mark.parametrize(
    ("parse", "document"),
    [
        (lambda text: read_person(text, "Anna", LANGUAGES["en"]), PERSON),
        (lambda text: read_scenario(text, beginning(PersonaOrder("en", "train", 8, seed=3), 0), LANGUAGES["en"]), SCENARIO),
    ],
    ids=["person", "scenario"],
)
@times
def test_answers_of_an_author(parse: Callable[[str], BaseModel], document: Any, times: int) -> None:
    def read(content: bytes) -> None:
        try:
            parse(text_of(content)).model_dump_json().encode()
        except Unusable as error:
            raise ValueError(str(error).encode().decode()) from error

    fuzz(mutants([document, [document]], answer), read, times)


@times
def test_responses_of_a_chat_endpoint(times: int, tmp_path: Path) -> None:
    """Each over a connection of its own, as a new question; what was answered is stored, and is the same when it is read again."""

    with told_endpoint(tmp_path / "answers.db") as (runner, told, endpoint):
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
