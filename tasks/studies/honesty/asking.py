"""Asking a policy all questions, and the file of its answers: a head that says who was asked and how, then one line an answer.

A question without an answer (endpoint down, context full) is kept with its reason and graded as nothing. While it is asked, the file grows
beside its place as FILE.partial; the same run goes on with it, and FILE is there when all is answered.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from rlver.components.domain.files import BadFile, alone_with, read_jsonl, write_jsonl
from rlver.components.domain.protocols import ContextFull, Policy, PolicyUnavailable
from rlver.components.domain.unfinished import Unfinished
from rlver.components.rollout.episode import TooManyFailures, together
from rlver.components.settings.settings import Settings, with_simulator
from rlver.tasks.runtime.assembly import Conversation
from rlver.tasks.runtime.conversing import as_evaluated
from rlver.tasks.studies.honesty.questions import Framing, PosedQuestion, QuestionKey, read

_LANGUAGE = "en"  # of all questions


class _Line(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Interview(_Line):
    """Who was asked and how; answers of one identity were given by the same model, code and parameters."""

    honesty: Literal[1] = 1  # of the file's format
    policy: str
    identity: str
    md5: str | None = None  # DVC's of the model folder, which the promotion gate compares; None behind an endpoint
    temperature: float = Field(ge=0)  # 0: greedy
    max_answer_tokens: int = Field(ge=1)  # thoughts included
    seed: int


class GivenAnswer(_Line):
    """`text`: without thoughts; None where there is no answer, and then `error` says why."""

    item: str
    condition: Framing
    asked: str
    text: str | None
    cut_off: bool = False  # at max_answer_tokens
    error: str | None = None

    @property
    def key(self) -> QuestionKey:
        return QuestionKey(self.item, self.condition)


@dataclass(frozen=True)
class AnswersFile:
    """An answers file, each question once."""

    asked: Interview
    answers: Sequence[GivenAnswer]


def as_asked(settings: Settings, sampled: bool, max_tokens: int, seed: int | None) -> Settings:
    """The settings with the decoding of the study: greedy, or as in the dialogues of the benchmark."""
    own = as_evaluated(with_simulator(settings, "scripted", None))  # no user is asked: the one that needs nothing
    policy = {"temperature": own.policy.temperature if sampled else 0.0, "max_reply_tokens": max_tokens}
    return own.model_copy(update={"policy": own.policy.model_copy(update=policy), "seed": own.seed if seed is None else seed})


def ask_and_write(
    talk: Conversation, asked: Interview, questions: Sequence[PosedQuestion], out: Path, max_failure_rate: float, step: Callable[[], None]
) -> AnswersFile:
    """Ask what an interrupted run with the same head has not, and write `out`; `step` is called after each answer.

    Raises TooManyFailures, and then `out` stays as it was and the next run asks for the missing ones; InUse while another process writes it.
    """
    unfinished = Unfinished(out, asked.model_dump(mode="json"), GivenAnswer)
    with alone_with(out):
        kept = {answer.key: answer for answer in unfinished.resume()}
        given = {one.key: kept[one.key] for one in questions if one.key in kept and kept[one.key].asked == one.asked}
        for _ in given:
            step()

        def on_answer(answer: GivenAnswer) -> None:
            if answer.error is None:
                unfinished.add(answer)
            step()

        todo = [question for question in questions if question.key not in given]
        talk.policy.start()
        given |= {answer.key: answer for answer in asyncio.run(_ask_all(talk, asked.seed, todo, on_answer))}
        answers = [given[question.key] for question in questions]
        _check_failed(answers, max_failure_rate)
        write_jsonl(out, [line.model_dump(mode="json") for line in (asked, *answers)])
        if kept.keys() <= given.keys():  # else they are of a run with a higher --limit, which goes on with them
            unfinished.discard()
    return AnswersFile(asked, answers)


async def _ask_all(
    talk: Conversation, seed: int, questions: Sequence[PosedQuestion], on_answer: Callable[[GivenAnswer], None]
) -> list[GivenAnswer]:
    slots = asyncio.Semaphore(talk.concurrency)

    async def one(question: PosedQuestion) -> GivenAnswer:
        async with slots:
            answer = await _ask(talk.policy, question, seed)
        on_answer(answer)
        return answer

    async with talk.policy_connection or nullcontext():
        try:
            return await together(one(question) for question in questions)
        finally:
            await talk.policy.close()


async def _ask(policy: Policy, question: PosedQuestion, seed: int) -> GivenAnswer:
    """In a dialogue of its own, whose name has nothing of the policy: two policies are asked with the same random draws."""
    item, condition = question.key
    session = policy.session(f"honesty/{item}/{condition}", seed, _LANGUAGE)
    try:
        reply = await session.reply(question.asked)
    except (PolicyUnavailable, ContextFull) as error:
        return GivenAnswer(item=item, condition=condition, asked=question.asked, text=None, error=f"{type(error).__name__}: {error}")
    finally:
        session.close()
    return GivenAnswer(item=item, condition=condition, asked=question.asked, text=reply.said.reply, cut_off=reply.cut_off)


def _check_failed(answers: Sequence[GivenAnswer], max_failure_rate: float) -> None:
    reasons = Counter(answer.error for answer in answers if answer.error)
    if (failed := sum(reasons.values())) > max_failure_rate * len(answers):
        commonest = "; ".join(f"{count} x {reason}" for reason, count in reasons.most_common(3))
        raise TooManyFailures(f"{failed} of {len(answers)} questions got no answer (allowed: {max_failure_rate:.0%}): {commonest}")


def read_answers(path: Path) -> AnswersFile:
    """Raises BadFile, with file and line, for what `ask_and_write` does not write."""
    rows = list(read_jsonl(path))
    if not rows or "honesty" not in rows[0][1]:
        raise BadFile(f"{path}: not an answers file; `rlver honesty run` writes one")
    asked = read(Interview, rows[0][1], f"{path}:{rows[0][0]}: not of an answers file")
    answers: dict[QuestionKey, GivenAnswer] = {}
    for number, row in rows[1:]:
        answer = read(GivenAnswer, row, f"{path}:{number}: not of an answers file")
        if answer.key in answers:
            raise BadFile(
                f"{path}:{number}: {answer.item} was answered in condition {answer.condition} already; delete one of the two lines"
            )
        if (answer.text is None) != (answer.error is not None):
            raise BadFile(f"{path}:{number}: expected a text or an error")
        answers[answer.key] = answer
    if not answers:
        raise BadFile(f"{path}: no answers in the file; ask the policy again")
    return AnswersFile(asked, list(answers.values()))
