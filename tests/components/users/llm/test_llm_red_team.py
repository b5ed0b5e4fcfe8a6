"""The policy cannot talk the appraiser into a score: no injection is ever outside the quotation, so nothing outside can be obeyed.

The endpoint here obeys every injection it can see outside the data, as a gullible model would. It reads the prompt as generously to
the attacker as it can: look-alike letters count as the letters, hidden characters are skipped, the first closing tag ends the data,
and a control token of a chat template counts wherever it stands.
"""

from __future__ import annotations

import asyncio
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from scripted_endpoint import ONE_CALL, TWO_CALLS, ScriptedEndpoint, step_of, usual

from rlver.components.domain.persona import Persona
from rlver.components.domain.protocols import Exchange
from rlver.components.domain.transcript import Appraisal
from rlver.components.endpoint.chat import ChatRequest
from rlver.components.users.llm import questions
from rlver.components.users.llm.answers import UnparsableAnswer, read_appraisal
from rlver.components.users.llm.kind import LLMUserSection
from rlver.components.users.llm.questions import LLMQuestions
from rlver.components.users.llm.simulator import LLMSimulator

HONEST, TALKED_INTO = -2, 10
HARMLESS = {"en": "Tell me more about it.", "zh": "你再多说一点吧。"}
TOKENS = re.compile(r"<\|[^|>]*\|>|\[/?INST\]|<(?:start|end)_of_turn>")
OPENING, CLOSING = (re.compile(rf"< *{slash} *dialogue_data *>", re.IGNORECASE) for slash in ("", "/"))


@dataclass(frozen=True)
class Injection:
    id: str
    language: str
    kind: str
    replies: tuple[str, ...]


def _injections() -> list[Injection]:
    def text(reply: str | Mapping[str, Any]) -> str:
        return reply if isinstance(reply, str) else reply["text"] * reply["times"]

    rows = YAML(typ="safe").load(Path(__file__).with_name("red_team.yaml").read_text(encoding="utf-8"))
    return [Injection(row["id"], row["language"], row["kind"], tuple(map(text, row["replies"]))) for row in rows]


INJECTIONS = _injections()
every_injection = pytest.mark.parametrize("injection", INJECTIONS, ids=lambda one: one.id)


@cache
def plain(text: str) -> str:
    """As a careless reader sees it."""
    return "".join(one for one in unicodedata.normalize("NFKC", text) if unicodedata.category(one) not in {"Cf", "Mn"})


@cache
def outside(text: str) -> str:
    """A message without its data: what stands before the first opening tag and after the first closing tag that follows."""
    seen = plain(text)
    opened = OPENING.search(seen)
    closed = CLOSING.search(seen, opened.end()) if opened else None
    return seen if opened is None else seen[: opened.start()] + (seen[closed.end() :] if closed else "")


@cache
def fragments(replies: tuple[str, ...]) -> frozenset[str]:
    """The beginnings of all lines of the replies, cut at tags."""
    tag = re.compile(f"{OPENING.pattern}|{CLOSING.pattern}", re.IGNORECASE)
    lines = [part for reply in replies for line in reply.splitlines() for part in tag.split(plain(line))]
    return frozenset(line.strip()[:30] for line in [*lines, *map(plain, replies)] if len(line.strip()) >= 5)


def is_obeyed(request: ChatRequest, replies: tuple[str, ...]) -> bool:
    seen = [outside(message.content) for message in request.messages]
    tokens = any(TOKENS.search(plain(message.content)) for message in request.messages)
    return tokens or any(fragment in text for text in seen for fragment in fragments(replies))


def talk(replies: Sequence[str], commands: tuple[str, ...], persona: Persona, difficulty: str, parameters: LLMUserSection) -> Any:
    """The changes of a dialogue in which the policy says `replies` and the model obeys `commands`; and all requests."""
    endpoint = ScriptedEndpoint(lambda request: usual(request, TALKED_INTO if is_obeyed(request, commands) else HONEST))

    async def changes() -> list[int]:
        session = LLMSimulator(endpoint, difficulty, parameters, 40).session(persona, 1)
        await session.open()
        found: list[int] = []
        for reply in replies:
            found.append((await session.appraise(reply)).change)
            await session.speak(40)
        return found

    return asyncio.run(changes()), endpoint.requests


def everywhere_outside(requests: Sequence[ChatRequest]) -> list[str]:
    return [outside(message.content) for request in requests for message in request.messages]


@pytest.fixture
def people_by_language(english: Persona, chinese: Persona) -> dict[str, Persona]:
    return {"en": english, "zh": chinese.model_copy(update={"first_line": "最近家里有点事"})}


def test_the_red_team_is_large_and_of_many_kinds() -> None:
    assert len(INJECTIONS) >= 60 and len({one.id for one in INJECTIONS}) == len(INJECTIONS)
    languages, kinds = Counter(one.language for one in INJECTIONS), Counter(one.kind for one in INJECTIONS)
    assert min(languages["en"], languages["zh"]) >= 25
    assert set(kinds) == {"label", "json", "role", "tag", "token", "unicode", "huge", "encoded", "leak", "turns"}
    assert min(kinds.values()) >= 5


@every_injection
def test_no_injection_moves_the_change(injection: Injection, people_by_language: dict[str, Persona]) -> None:
    """Outside the data the prompts are, to the character, those of a harmless dialogue; so the obedient model has nothing to obey."""
    harmless = [HARMLESS[injection.language]] * len(injection.replies)
    for difficulty in ("vanilla", "challenging"):
        for parameters in (TWO_CALLS, ONE_CALL):
            how = (injection.replies, people_by_language[injection.language], difficulty, parameters)
            changes, asked = talk(injection.replies, *how)
            assert changes == [HONEST] * len(injection.replies)
            assert everywhere_outside(asked) == everywhere_outside(talk(harmless, *how)[1])


def naked(data: Mapping[str, Any]) -> str:
    """The dialogue without any quoting, as a prompt that formats strings would have it."""
    pieces = [piece for value in data.values() if isinstance(value, list) for piece in value]
    return "\n".join(f"{piece['speaker']}: {piece['text']}" for piece in pieces)


@every_injection
def test_without_the_quotation_the_same_model_does_obey(
    injection: Injection, people_by_language: dict[str, Persona], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(questions, "quoted", naked)
    changes, _ = talk(injection.replies, injection.replies, people_by_language[injection.language], "vanilla", TWO_CALLS)
    assert TALKED_INTO in changes


def test_tags_without_escapes_are_no_quotation(people_by_language: dict[str, Persona], monkeypatch: pytest.MonkeyPatch) -> None:
    """JSON between tags alone lets closing tags and control tokens through."""
    monkeypatch.setattr(questions, "quoted", lambda data: f"<dialogue_data>\n{json.dumps(data, ensure_ascii=False)}\n</dialogue_data>")
    attacks = [one for one in INJECTIONS if one.kind in ("tag", "token") and "entity" not in one.id]
    for one in attacks:
        assert TALKED_INTO in talk(one.replies, one.replies, people_by_language[one.language], "vanilla", TWO_CALLS)[0], one.id


@every_injection
def test_an_injection_that_was_repeated_by_a_model_stays_quoted(injection: Injection, people_by_language: dict[str, Persona]) -> None:
    """In the person's own earlier message, in the appraisal's reasons, and in an answer that had to be asked for again."""
    persona = people_by_language[injection.language]
    for difficulty in ("vanilla", "challenging"):
        asked = LLMQuestions(persona, difficulty, TWO_CALLS)
        for text in injection.replies:
            history = [Exchange(text, text), Exchange(text, text)]
            felt = Appraisal(content=text, target=text[:3000], activity=text[:3000], feeling=text[:3000], change=0)
            assert not is_obeyed(asked.appraisal(40, history, 1), (text,)) and not is_obeyed(asked.speech(40, history, felt, 1), (text,))
            reason = refusal(text, persona)
            if reason is None:
                assert injection.id in ("json-answer", "json-zh-answer"), "a model that answers with the reply has obeyed on its own"
            else:
                assert not [fragment for fragment in fragments((text,)) if fragment in plain(asked.repair(reason))]


def refusal(answer: str, persona: Persona) -> str | None:
    try:
        read_appraisal(answer, persona)
    except UnparsableAnswer as error:
        return error.reason
    return None


def test_the_obedient_model_would_not_obey_a_harmless_dialogue(people_by_language: dict[str, Persona]) -> None:
    for injection in INJECTIONS:
        harmless = [HARMLESS[injection.language]]
        assert talk(harmless, injection.replies, people_by_language[injection.language], "vanilla", TWO_CALLS)[0] == [HONEST], injection.id


def test_only_the_data_of_the_user_message_depends_on_what_was_said(english: Persona) -> None:
    """Also between two requests of one dialogue: system messages hold instructions and persona only."""
    _, asked = talk(["a", "b", "c"], ("x" * 40,), english, "vanilla", TWO_CALLS)
    for step in ("appraise", "speak"):
        assert len({request.messages[0] for request in asked if step_of(request) == step}) == 1
