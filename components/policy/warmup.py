"""The dialogues that a pretrained model is warmed up on: short replies in many voices of free English, good and mediocre ones mixed.

They were written for this project, to messages of simulated users of the train scenarios: so that what reinforcement learning adds afterwards is
seen apart from what being shown a way of talking adds. In the file, `#` begins a dialogue, `U:` is the user, `A: [good|mediocre|bad]` the supporter.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from rlver.components.domain.files import BadFile

DIALOGUES = Path(__file__).with_name("warmup.txt")
_REPLY = re.compile(r"A: \[(good|mediocre|bad)\] (\S.*)")


@dataclass(frozen=True)
class Shown:
    """A dialogue that the model is shown. `marks` say how good each reply is, which nothing is trained on."""

    users: tuple[str, ...]
    replies: tuple[str, ...]
    marks: tuple[str, ...]


def shown(path: Path = DIALOGUES) -> list[Shown]:
    """The dialogues of a file in their order. Raises BadFile with the line."""
    dialogues: list[Shown] = []
    users, replies, marks = list[str](), list[str](), list[str]()

    def finish(where: str) -> None:
        if len(users) != len(replies):
            raise BadFile(f"{where}: the dialogue before ends without a reply")
        if users:
            dialogues.append(Shown(tuple(users), tuple(replies), tuple(marks)))
        for kept in (users, replies, marks):
            kept.clear()

    lines = path.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, start=1):
        where = f"{path.name}: line {number}"
        if line.startswith("#"):
            finish(where)
        elif line.startswith("U: ") and len(users) == len(replies):
            users.append(line[3:].strip())
        elif len(users) == len(replies) + 1 and (found := _REPLY.fullmatch(line.strip())):
            marks.append(found[1])
            replies.append(found[2])
        elif line.strip():
            raise BadFile(f"{where}: expected U: and A: [good|mediocre|bad] in turns, or # before a new dialogue")
    finish(f"{path.name}: the end")
    return dialogues
