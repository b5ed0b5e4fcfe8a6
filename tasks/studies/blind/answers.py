"""The file of answers: JSON lines that are only ever added. Of several answers of a person to the same pair or talk the last one counts.

The first line names the pairs with the emotions that the simulator gave them, so a report needs nothing but this file.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError

from rlver.components.domain.files import BadFile
from rlver.components.domain.printable import whole_characters
from rlver.components.domain.thinking import separate_thought
from rlver.components.domain.transcript import Dialogue

Side = Literal["a", "b"]
Preference = Literal["a", "b", "tie"]
MOST_NAME, MOST_REASON, MOST_MESSAGE = 40, 2000, 4000  # characters


def _whole(value: Any) -> Any:
    return whole_characters(value) if isinstance(value, str) else value


Text = Annotated[str, BeforeValidator(_whole)]  # what people and models say


class _Row(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class StudyPair(_Row):
    """A pair by name. Emotions are final ones, 0..100; None where the transcript has none. Words: digests of what was said (`words_of`); None, and
    not written, in files of before they were noted."""

    pair_id: str
    persona_id: Text
    dialogue_a: Text
    dialogue_b: Text
    emotion_a: int | None = Field(ge=0, le=100)
    emotion_b: int | None = Field(ge=0, le=100)
    words_a: str | None = Field(default=None, exclude_if=lambda words: words is None)
    words_b: str | None = Field(default=None, exclude_if=lambda words: words is None)


class Study(_Row):
    """What is compared. A file that was begun with anything else is not continued."""

    kind: Literal["study"] = "study"
    a: Text  # name of the policy
    b: Text
    simulator: Text
    seed: int
    pairs_each: int
    overlap: float
    pairs: tuple[StudyPair, ...]

    def without_words(self) -> Study:
        bare = (pair.model_copy(update={"words_a": None, "words_b": None}) for pair in self.pairs)
        return self.model_copy(update={"pairs": tuple(bare)})


def words_of(dialogue: Dialogue) -> str:
    """Twelve hex digits over what user and policy said, without thoughts."""
    said = [(turn.user, separate_thought(turn.assistant)[1]) for turn in dialogue.turns]
    return hashlib.sha256(repr(said).encode("utf-8", "backslashreplace")).hexdigest()[:12]


class _Judged(_Row):
    at: str  # ISO time, UTC
    answer_id: str  # made by the page: the same answer, sent twice, is one
    rater: Text
    preference: Preference
    confidence: int = Field(ge=1, le=3)
    reason: Text = Field(default="", max_length=MOST_REASON)

    @property
    def judgement(self) -> tuple[object, ...]:
        """What the person thinks, whenever it was said."""
        return self.preference, self.confidence, self.reason

    @property
    def content(self) -> tuple[object, ...]:
        """All of it but when: what two rows share that are one answer, sent twice. Its id alone could come again with other content."""
        return tuple(self.model_dump(exclude={"at", "seconds"}).items())


class Choice(_Judged):
    """A person prefers one dialogue of a pair. `seconds` since it was shown."""

    kind: Literal["choice"] = "choice"
    pair_id: str
    left: Side
    seconds: float | None = None


class TalkBegun(_Row):
    """A person begins to talk with two models."""

    kind: Literal["talk"] = "talk"
    at: str
    rater: Text
    talk_id: str
    a: Text
    b: Text
    left: Side


class PersonSaid(_Row):
    """A person's message, written down before anybody is asked."""

    kind: Literal["said"] = "said"
    at: str
    talk_id: str
    message_id: str
    text: Text = Field(max_length=MOST_MESSAGE)


class Spoken(_Row):
    """What one model replied; `error` says why there is no reply."""

    reply: Text | None
    think: Text | None = None
    error: Text | None = None


class Replied(_Row):
    """Both replies to a message."""

    kind: Literal["replied"] = "replied"
    at: str
    talk_id: str
    message_id: str
    a: Spoken
    b: Spoken


class TalkVerdict(_Judged):
    """A person prefers one of the two models they talked with."""

    kind: Literal["verdict"] = "verdict"
    talk_id: str


Row = Study | Choice | TalkBegun | PersonSaid | Replied | TalkVerdict
_ROW: TypeAdapter[Row] = TypeAdapter(Annotated[Row, Field(discriminator="kind")])


class StudyAnswers(NamedTuple):
    """`whole_bytes`: where the last whole line ends; what follows was cut off while it was written, and was never confirmed."""

    rows: list[Row]
    whole_bytes: int
    cut_off_bytes: int


def line_of(row: Row) -> bytes:
    return (row.model_dump_json() + "\n").encode()


def read_answers(path: Path) -> StudyAnswers:
    """Every row of the file. Raises BadFile for a line that is no answer, unless it is the last and its end is missing."""
    check_regular(path)
    try:
        content = path.read_bytes()
    except FileNotFoundError as error:
        raise BadFile(f"{path}: no such file; `rlver blind A B` makes it") from error
    lines = content.split(b"\n")
    tail = lines.pop()
    whole = len(content) - len(tail)
    if lines and not tail and not _is_json(lines[-1]):  # an end of line can be on the disk before what stands in front of it
        whole -= len(lines.pop()) + 1
    rows = []
    for number, line in enumerate(lines, start=1):
        try:
            rows.append(_ROW.validate_json(line))
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            raise BadFile(f"{path}:{number}: not an answer: {where}: {first['msg']}".replace(": :", ":")) from error
    begins = b'{"kind":"'  # every first row
    if content and not rows and not begins.startswith(content[: len(begins)]) and content.strip(b"\0\n"):
        raise BadFile(f"{path}: not a file of answers; name one that `rlver blind` wrote")  # nothing of somebody else's file is cut off
    return StudyAnswers(rows, whole, len(content) - whole)


def check_regular(path: Path) -> None:
    """Raises BadFile for a folder, a pipe or a device: reading would wait, or never end."""
    if path.exists() and not path.is_file():
        raise BadFile(f"{path}: not a regular file; answers are kept in one")


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True
