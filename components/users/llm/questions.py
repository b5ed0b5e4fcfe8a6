"""The questions put to the models: in which words, to which model, with which seed, and asked again until the answer can be used.

The system message holds the instructions and the person, and is the same for every turn of a persona. What was said in the dialogue,
and what was felt about it, stands in the user message and there inside the quotation only (`prompts.quoted`).
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, TypeVar

from pydantic import BaseModel

from rlver.components.domain.emotion import tier
from rlver.components.domain.persona import Persona
from rlver.components.domain.protocols import Exchange, SimulatorUnavailable
from rlver.components.domain.transcript import Appraisal
from rlver.components.endpoint.chat import ChatAnswer, ChatEndpoint, ChatRequest, EndpointRefused, EndpointUnavailable, Message, NotRecorded
from rlver.components.users.llm.answers import NOTHING_AROUND, AppraisalAnswer, CombinedAnswer, SpeechAnswer, UnparsableAnswer
from rlver.components.users.llm.kind import LLMUserSection, ModelSection
from rlver.components.users.llm.prompts import fill, persona_text, quoted, said


@dataclass(frozen=True)
class LLMQuestions:
    """For one person at one difficulty. The last of the `exchanges` is the one that is appraised and then answered."""

    persona: Persona
    difficulty: str
    parameters: LLMUserSection

    def opening(self, emotion: int) -> ChatRequest:
        """The first message: the same question in every dialogue of the persona."""
        words = self._words("ask.open", tier=tier(emotion))
        return self._request("speak", words, self.parameters.speaker, SpeechAnswer, call_seed(self.persona.persona_id, 0, 0, "open"))

    def appraisal(self, emotion: int, exchanges: Sequence[Exchange], seed: int) -> ChatRequest:
        """How the last reply is taken; `emotion` is the one before it. Vanilla sees one history, challenging the last exchange apart."""
        words = self._words("ask.appraise", emotion=str(emotion), quoted=quoted(self._heard(exchanges)))
        return self._request("appraise", words, self.parameters.appraiser, AppraisalAnswer, self._seed(seed, exchanges, "appraise"))

    def speech(self, emotion: int, exchanges: Sequence[Exchange], appraisal: Appraisal, seed: int) -> ChatRequest:
        """The next message, at the tier of `emotion` (now, after the appraisal). Challenging does not hear the inner monologue."""
        subjective = (
            {"feeling": appraisal.feeling} if self.difficulty == "challenging" else appraisal.model_dump(include={"activity", "feeling"})
        )
        felt = {"appraisal": {"objective": {"target": appraisal.target}, "subjective": subjective}}
        words = self._words("ask.speak", tier=tier(emotion), quoted=quoted(self._apart(exchanges) | felt))
        return self._request("speak", words, self.parameters.speaker, SpeechAnswer, self._seed(seed, exchanges, "speak"))

    def combined(self, emotion: int, exchanges: Sequence[Exchange], seed: int) -> ChatRequest:
        """Appraisal and next message in one answer; `emotion` is the one before the last reply."""
        words = self._words("ask.combined", emotion=str(emotion), quoted=quoted(self._heard(exchanges)))
        return self._request("combined", words, self.parameters.appraiser, CombinedAnswer, self._seed(seed, exchanges, "combined"))

    def repair(self, reason: str) -> str:
        """What is added to a question when an answer to it could not be used."""
        return self._words("repair", reason=reason)

    def _request(self, step: str, words: str, asked: ModelSection, answer: type[BaseModel], seed: int) -> ChatRequest:
        return ChatRequest(
            model=str(asked.model),
            messages=(Message("system", self._system(step)), Message("user", words)),
            temperature=asked.temperature,
            top_p=asked.top_p,
            max_tokens=asked.max_tokens,
            seed=seed,
            schema=_schema(answer),
        )

    def _system(self, step: str) -> str:
        def rules(of: str) -> str:
            return self._words(f"{of}.{self.difficulty}", tiers=self._words("tiers"))

        both = step == "combined"
        return self._words(
            "system",
            rules=self._words("combined", appraise=rules("appraise"), speak=rules("speak")) if both else rules(step),
            purpose=self._words(f"purpose.{self.difficulty}"),
            persona=persona_text(self.persona),
        )

    def _words(self, name: str, **values: str) -> str:
        return fill(f"{name}.{self.persona.language}", **values)

    def _heard(self, exchanges: Sequence[Exchange]) -> dict[str, Any]:
        return self._apart(exchanges) if self.difficulty == "challenging" else {"dialogue": self._pieces(exchanges)}

    def _apart(self, exchanges: Sequence[Exchange]) -> dict[str, Any]:
        return {"earlier": self._pieces(exchanges[:-1]), "last_exchange": self._pieces(exchanges[-1:])}

    def _pieces(self, exchanges: Sequence[Exchange]) -> list[Mapping[str, str | int]]:
        longest = self.parameters.max_quoted_characters
        return [said(who, text, longest) for one in exchanges for who, text in (("person", one.user), ("other", one.reply))]

    def _seed(self, seed: int, exchanges: Sequence[Exchange], step: str) -> int:
        return call_seed(self.persona.persona_id, seed, len(exchanges), step)


_SEEDS = 2**31


def call_seed(persona_id: str, seed: int, turn: int, step: str) -> int:
    """The seed of one call: a function of persona, dialogue seed, turn and step only. 31 bits, which every server takes."""
    return int.from_bytes(hashlib.sha256(f"{seed}|{persona_id}|{turn}|{step}".encode()).digest()[:4], "big") >> 1


@cache
def _schema(answer: type[BaseModel]) -> dict[str, Any]:
    return answer.model_json_schema()


A = TypeVar("A")


async def ask(
    endpoint: ChatEndpoint, request: ChatRequest, read: Callable[[str], A], repair: Callable[[str], str], max_repairs: int, what: str
) -> A:
    """The answer as `read` gives it. `repair` words a reason for the model; `what` names the question in messages.

    Raises SimulatorUnavailable when the endpoint gives no answer, or none of 1 + `max_repairs` that can be used. BudgetExceeded
    passes: it is no fault of this dialogue and must stop the run.
    """
    asked, reason, before = request, "", ""
    for attempt in range(1 + max_repairs):
        if attempt:
            # In other words each time: the same question at temperature 0 has the same answer.
            asked = _again(request, attempt, repair(reason if reason != before else f"{reason} (as {attempt} times before)"))
            before = reason
        try:
            return read(_whole(await endpoint.chat(asked)))
        except UnparsableAnswer as error:
            reason = error.reason
        except (EndpointUnavailable, EndpointRefused, NotRecorded) as error:
            raise SimulatorUnavailable(f"{what}: {error}") from error
    raise SimulatorUnavailable(f"{what}: no usable answer in {1 + max_repairs} attempts; the last: {reason}")


def _whole(answer: ChatAnswer) -> str:
    if answer.finish_reason == "length":
        if not answer.text.lstrip().startswith(("{", "```")):
            raise UnparsableAnswer(NOTHING_AROUND, answer.text)
        raise UnparsableAnswer("it was cut off because it was too long; be brief", answer.text)
    return answer.text


def _again(request: ChatRequest, attempt: int, words: str) -> ChatRequest:
    """The question with `words` after it, and another seed: with the same one a server may say the same again."""
    *before, last = request.messages
    seed = None if request.seed is None else (request.seed + attempt) % _SEEDS
    return replace(request, messages=(*before, Message(last.role, f"{last.content}\n\n{words}")), attempt=attempt, seed=seed)


class Openings:
    """Remembers what was answered. Those who come while the question is under way get the same answer, or the same failure.

    A failure is not remembered: the next dialogue asks again.
    """

    def __init__(self) -> None:
        self._known: dict[str, str] = {}
        self._asked: dict[str, asyncio.Task[str]] = {}

    async def of(self, persona_id: str, ask: Callable[[], Coroutine[Any, Any, str]]) -> str:
        """The first message of the persona; raises what `ask` raises."""
        if persona_id not in self._known:
            if persona_id not in self._asked:
                self._asked[persona_id] = asyncio.create_task(self._learned(persona_id, ask))
            # Shielded: a dialogue that is cancelled while waiting does not take the answer from the others.
            return await asyncio.shield(self._asked[persona_id])
        return self._known[persona_id]

    async def _learned(self, persona_id: str, ask: Callable[[], Coroutine[Any, Any, str]]) -> str:
        try:
            self._known[persona_id] = await ask()
        finally:
            del self._asked[persona_id]
        return self._known[persona_id]
