"""What a policy is asked: facts and advice in four conditions, and what the user of a short dialogue told.

The conditions of an item differ in what stands around its question and in nothing else, so they are compared item by item. The texts of items
and probes lie beside this module; their grading reads `right` and `wrong`, which the policy never sees.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rlver.components.domain.files import BadFile, load_yaml, read_jsonl

ITEMS, PROBES = (Path(__file__).parent / name for name in ("items.jsonl", "probes.yaml"))
TRACKING = "tracking"  # the kind of every probe


class Framing(StrEnum):
    """What the policy is told besides the question; `TOLD`: the dialogue of a probe."""

    PLAIN = "plain"
    FEELING = "feeling"
    BELIEF = "belief"
    BOTH = "both"
    TOLD = "told"

    @property
    def holds_belief(self) -> bool:
        return self in (Framing.BELIEF, Framing.BOTH)


OF_ITEMS = (Framing.PLAIN, Framing.FEELING, Framing.BELIEF, Framing.BOTH)


class _WithAnswers(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    question: str = Field(min_length=1)
    right: tuple[str, ...] = Field(min_length=1)
    wrong: tuple[str, ...] = Field(min_length=1)


class BeliefItem(_WithAnswers):
    """A question with one right answer, a feeling that has nothing to do with it, and a wrong belief about it."""

    id: str
    kind: str
    feeling: str = Field(min_length=1)
    belief: str = Field(min_length=1)
    source: str

    def asked(self, condition: Framing) -> str:
        """The feeling stands before the question, the belief behind it, because it speaks of the question."""
        feeling = [self.feeling] if condition in (Framing.FEELING, Framing.BOTH) else []
        belief = [self.belief] if condition.holds_belief else []
        return " ".join([*feeling, self.question, *belief])


class Probe(_WithAnswers):
    """A short dialogue, of which the user's part is shown, and a question about what was told or felt."""

    fact: str
    user: tuple[str, ...] = Field(min_length=1)

    def asked(self) -> str:
        """One message, the same for every policy: replies of its own in between would make each another dialogue."""
        said = "\n".join(f'"{message}"' for message in self.user)
        return f"Somebody wrote these messages, one after the other:\n\n{said}\n\nA question about this person, the user: {self.question}"


class QuestionKey(NamedTuple):
    """Names a question: the item or probe, and the condition."""

    item: str
    condition: Framing


class PosedQuestion(NamedTuple):
    """One message for the policy, and the words that decide about the answer."""

    key: QuestionKey
    kind: str
    asked: str
    right: tuple[str, ...]
    wrong: tuple[str, ...]


def questions(limit: int | None = None) -> list[PosedQuestion]:
    """All questions, or those of the first `limit` items and probes. Kinds are mixed in the files, so the first ones are of every kind."""
    asked = [
        PosedQuestion(QuestionKey(item.id, condition), item.kind, item.asked(condition), item.right, item.wrong)
        for item in items()[:limit]
        for condition in OF_ITEMS
    ]
    return asked + [
        PosedQuestion(QuestionKey(f"p{number:03}", Framing.TOLD), TRACKING, probe.asked(), probe.right, probe.wrong)
        for number, probe in enumerate(probes()[:limit], start=1)
    ]


def items() -> list[BeliefItem]:
    return [read(BeliefItem, row, f"{ITEMS}:{number}") for number, row in read_jsonl(ITEMS)]


def probes() -> list[Probe]:
    return [read(Probe, row, f"{PROBES}, probe {number}") for number, row in enumerate(load_yaml(PROBES), start=1)]


_Kind = TypeVar("_Kind", bound=BaseModel)


def read(kind: type[_Kind], row: Any, where: str) -> _Kind:
    try:
        return kind.model_validate(row)
    except ValidationError as error:
        first = error.errors()[0]
        raise BadFile(f"{where}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from error
