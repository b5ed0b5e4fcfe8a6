"""What is ordered of the writer, and the numbers of its work. No defaults: they stand in params.yaml.

Many questions at once, their answers judged in order; an answer that cannot be used is asked for again, with the reason.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from rlver.components.endpoint.chat import ChatAnswer, ChatEndpoint, ChatRequest
from rlver.components.settings.study_sections import AuthoringSettings
from rlver.tasks.studies.authoring.language import LANGUAGES


@dataclass(frozen=True)
class PersonaOrder:
    """`count` personas of one split; with a larger count the first ones stay the same."""

    language: str
    split: str
    count: int
    seed: int

    def __post_init__(self) -> None:
        if self.language not in LANGUAGES:
            raise ValueError(f"language must be one of {', '.join(LANGUAGES)}, got {self.language!r}")
        if self.split not in ("train", "test"):
            raise ValueError(f"split must be train or test, got {self.split!r}")
        if self.count < 1 or self.seed < 0:
            raise ValueError(f"count must be 1 or more and seed 0 or more, got {self.count} and {self.seed}")


class WriterParameters(AuthoringSettings):
    """The section `authoring` with the model that writes."""

    model: str


T = TypeVar("T")


class Unusable(ValueError):
    """An answer that is not taken. `kind` is what it is counted as; the message goes to the model with the next attempt."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind


class Unwritten(ValueError):
    """No attempt at one question gave an answer that could be used."""


@dataclass(frozen=True)
class Question(Generic[T]):
    """`request` gives the call of an attempt, 0 the first, with the reason why the one before was not taken. `read` raises Unusable."""

    what: str
    request: Callable[[int, str], ChatRequest]
    read: Callable[[str], T]


class Asker:
    """`rejected` counts, by kind, every answer that was not taken. At most `concurrency` calls are under way."""

    def __init__(self, endpoint: ChatEndpoint, concurrency: int, max_repairs: int) -> None:
        self.rejected: Counter[str] = Counter()
        self.max_repairs = max_repairs
        self._endpoint = endpoint
        self._slots = asyncio.Semaphore(concurrency)
        self._stopped = False

    async def ask(self, questions: Sequence[Question[T]], take: Callable[[int, T], None]) -> None:
        """`take(number, answer)` for every question in order; what it refuses with Unusable is asked for again.

        Raises Unwritten, or EndpointError; calls that are under way then are waited for, because their answers are paid and stored.
        """
        asked = [_Question(self, question) for question in questions]
        first = [asyncio.create_task(one.next()) for one in asked]
        try:
            for number, (one, task) in enumerate(zip(asked, first, strict=True)):
                answer = await task
                await asyncio.sleep(0)  # calls under way must not time out while many answers are taken in a row
                while True:
                    try:
                        take(number, answer)
                        break
                    except Unusable as why:
                        one.reject(why)
                    answer = await one.next()
        except asyncio.CancelledError:
            for task in first:
                task.cancel()
            raise
        finally:
            self._stopped = True
            await asyncio.gather(*first, return_exceptions=True)
            self._stopped = False

    async def call(self, request: ChatRequest) -> ChatAnswer:
        async with self._slots:
            if self._stopped:
                raise asyncio.CancelledError
            return await self._endpoint.chat(request)


class _Question(Generic[T]):
    def __init__(self, asker: Asker, question: Question[T]) -> None:
        self._asker, self._question = asker, question
        self._attempts, self._reason = 0, ""

    async def next(self) -> T:
        """The next answer that can be read."""
        while True:
            answer = await self._asker.call(self._question.request(self._attempts, self._reason))
            self._attempts += 1
            try:
                return self._question.read(_whole(answer))
            except Unusable as why:
                self.reject(why)

    def reject(self, why: Unusable) -> None:
        """Count it; raises Unwritten when it was the last attempt."""
        self._reason, rejected = str(why), self._asker.rejected
        rejected[why.kind] += 1
        if self._attempts > self._asker.max_repairs:
            counts = ", ".join(f"{kind} {count}" for kind, count in sorted(rejected.items()))
            raise Unwritten(
                f"{self._question.what}: none of {self._attempts} answers could be used; the last: {why.kind}: {why}; "
                f"rejected so far: {counts}; raise authoring.max_repairs, or take another model or seed; answered calls are kept"
            )


def _whole(answer: ChatAnswer) -> str:
    if answer.finish_reason == "length":
        raise Unusable("cut off", "it was cut off because it was too long; be brief")
    if answer.finish_reason == "content_filter":
        raise Unusable("withheld", "it was withheld by a filter; keep it harmless")
    return answer.text
