"""Labelled replies: what each does (acts), how well (quality), and how most people would take it (value). One text file a style.

A file is blocks of a message and its replies, in lines that begin with @ (situation), U (the user's message), B (what was said before, optional)
and R (a reply with its labels); docs/hearing.md says what the labels mean.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rlver.components.domain.acts import ACTS
from rlver.components.domain.files import BadFile

FOLDER = Path(__file__).with_name("replies")
NEXT = Path(__file__).with_name(
    "next"
)  # labelled after the reader was fitted, so it is measured on them; a fit takes them once they lie in FOLDER
UNFITTED_STYLES = ("elderly", "sense", "plain", "careful", "model_apart", "simple_apart")  # whole styles that no head has seen
# Replies of small models, and replies written for them, read strictly: half sense is no sense in them.
WRITTEN, WRITTEN_APART, SHORT = "simple", "simple_apart", "short_other_hints"
STRICT_STYLES = (
    *("model_apart", "model_finding_out", "model_hints", "model_other_hints", "model_own", "model_short", "model_trained", "model_warmups"),
    *(WRITTEN, WRITTEN_APART, "written_beside", "written_short"),
)
TRAPS = frozenset({"parrot", "empty_praise", "ignores", "irony", "wrong_person", "blaming_apology", "reproach_question", "nonsense",
                   "tried", "hijack", "agree_harm", "stacked", "subtle", "blunt"})  # fmt: skip
_REPLY = re.compile(r"R \[([a-z_, ]*)\] v=([+-]?[0-2]) q=(-|[SPCH]+)(?: trap=([a-z_]+))?: (\S.*)")
_UNFITTED_SITUATIONS = 10  # of a hundred
LETTERS = {"S": "specific", "P": "picks_up", "C": "coherent", "H": "sincere"}


@dataclass(frozen=True)
class Labelled:
    """One reply with its labels. `before` is what the user said earlier in the dialogue, "" where nothing was."""

    style: str
    situation: str
    user: str
    before: str
    reply: str
    acts: frozenset[str]
    value: int
    quality: frozenset[str]
    trap: str | None

    @property
    def is_for_fitting(self) -> bool:
        """Fitted by the ordinary labels: neither of a style nor of a situation that is kept apart, nor read strictly."""
        return self.style not in (*UNFITTED_STYLES, *STRICT_STYLES) and not self._is_apart

    @property
    def is_for_strict_fitting(self) -> bool:
        """Fitted by strict labels: read strictly, and neither of a style nor of a situation that is kept apart."""
        return self.style in STRICT_STYLES and self.style not in UNFITTED_STYLES and not self._is_apart

    @property
    def _is_apart(self) -> bool:
        return int(hashlib.sha256(self.situation.encode()).hexdigest(), 16) % 100 < _UNFITTED_SITUATIONS


def labelled(folder: Path = FOLDER) -> list[Labelled]:
    """All replies of all styles, in the order of the files. Raises BadFile with the line."""
    return [one for path in sorted(folder.glob("*.txt")) for one in read_style(path)]


def read_style(path: Path) -> Iterator[Labelled]:
    """The replies of one file, whose name is the style. Raises BadFile."""
    situation = user = before = ""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        kind, _, rest = line.partition(" ")
        if not line.strip():
            continue
        if kind == "@":
            situation, user, before = rest.strip(), "", ""
        elif kind == "U:":
            user, before = rest.strip(), ""
        elif kind == "B:":
            before = " ".join(part.strip().removeprefix("user:").strip() for part in rest.split(" | ") if part.strip().startswith("user:"))
        elif situation and user and (found := _REPLY.fullmatch(line)):
            yield _one(path.stem, situation, user, before, found, f"{path}: line {number}")
        else:
            raise BadFile(
                f"{path}: line {number}: expected @, U:, B: or R [acts] v=N q=LETTERS (trap=NAME): reply, after a situation and a message"
            )


def _one(style: str, situation: str, user: str, before: str, found: re.Match[str], where: str) -> Labelled:
    acts = frozenset(act.strip() for act in found[1].split(",") if act.strip())
    unknown: Sequence[str] = sorted(acts - set(ACTS)) + ([found[4]] if found[4] and found[4] not in TRAPS else [])
    if unknown:
        raise BadFile(f"{where}: unknown label {unknown[0]!r}: acts are {', '.join(ACTS)}; traps are {', '.join(sorted(TRAPS))}")
    quality = frozenset(LETTERS[letter] for letter in found[3] if letter != "-")
    return Labelled(style, situation, user, before, found[5].strip(), acts, int(found[2]), quality, found[4])
