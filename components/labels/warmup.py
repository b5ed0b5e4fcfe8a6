"""What a pretrained model is warmed up on: short plain replies in free English, written for this project.

Dialogues with simulated users of the train scenarios, whose replies are marked good or mediocre (not what this user wants); one file a collection,
in dialogues/. In a file, `# NEED` begins a dialogue, `U:` is the user, `A: [good|mediocre]` the supporter.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass
from pathlib import Path

from rlver.components.domain.files import BadFile

GOOD = "good"
_HELD_OUT = 12
DIALOGUES = Path(__file__).with_name("dialogues")
_REPLY = re.compile(r"A: \[(good|mediocre)\] (\S.*)")


@dataclass(frozen=True)
class Shown:
    """A dialogue that the model is shown. `marks` say how good each reply is: a good one does what serves the `need`."""

    users: tuple[str, ...]
    replies: tuple[str, ...]
    marks: tuple[str, ...]
    need: str


def is_held_out(one: Shown) -> bool:
    """Whether it is never shown, and says what a model has learned of the others: one story in twelve, told by its first message."""
    return zlib.crc32(one.users[0].encode()) % _HELD_OUT == 0


def collection(name: str) -> list[Shown]:
    """The dialogues of a shipped collection. Raises ValueError for one that there is not."""
    files = {path.stem: path for path in sorted(DIALOGUES.glob("*.txt"))}
    if name not in files:
        raise ValueError(f"warmup.dialogues: there is no collection {name!r}, only {', '.join(files)}")
    return shown(files[name])


def shown(path: Path) -> list[Shown]:
    """The dialogues of a file in their order. Raises BadFile with the line."""
    dialogues: list[Shown] = []
    users, replies, marks, need = list[str](), list[str](), list[str](), ""

    def finish(where: str) -> None:
        if len(users) != len(replies):
            raise BadFile(f"{where}: the dialogue before ends without a reply")
        if users:
            dialogues.append(Shown(tuple(users), tuple(replies), tuple(marks), need))
        for kept in (users, replies, marks):
            kept.clear()

    lines = path.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, start=1):
        where = f"{path.name}: line {number}"
        if line.startswith("#"):
            finish(where)
            need = line[1:].strip()
        elif line.startswith("U: ") and len(users) == len(replies):
            users.append(line[3:].strip())
        elif len(users) == len(replies) + 1 and (found := _REPLY.fullmatch(line.strip())):
            marks.append(found[1])
            replies.append(found[2])
        elif line.strip():
            raise BadFile(f"{where}: expected U: and A: [good|mediocre] in turns, or # before a new dialogue")
    finish(f"{path.name}: the end")
    return dialogues
