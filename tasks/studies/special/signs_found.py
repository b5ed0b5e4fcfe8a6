"""How well the signs in replies to users of a kind are found: precision and recall against labels, on replies that no pattern was written on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlver.components.domain.files import BadFile, load_yaml
from rlver.components.domain.persona import PersonaKind
from rlver.components.users.scripted.reading import read_reply
from rlver.components.users.special.appraiser import ACTS
from rlver.components.users.special.rule import Answered, signs_in
from rlver.components.users.special.signs import FOUND, SIGNS, Sign, find
from rlver.tasks.runtime.brackets import shown
from rlver.tasks.studies.acts.detection import Detection, of_one
from rlver.tasks.studies.acts.tables import table

LABELS = Path(__file__).with_name("labels")
APART = "apart"  # the file of the half that is kept apart; the others were seen while the patterns were written
EVERY = "all signs"


@dataclass(frozen=True)
class LabelledSigns:
    """A reply to a user of a kind and the signs that the labels find in it; `before` is what the user said before `user`."""

    kind: PersonaKind
    before: str
    user: str
    reply: str
    signs: frozenset[str]


def load_signs(path: Path) -> list[LabelledSigns]:
    """The labelled replies of a file. Raises BadFile with the number of the entry."""
    entries = load_yaml(path)
    if not isinstance(entries, list) or not entries:
        raise BadFile(f"{path}: expected a list of entries, each with kind, user and replies with their signs")
    rows = []
    for number, entry in enumerate(entries, start=1):
        try:
            kind = PersonaKind(entry["kind"])
            rows += [_labelled(kind, entry, reply) for reply in entry["replies"]]
        except (KeyError, TypeError, ValueError) as error:
            raise BadFile(f"{path}: entry {number}: expected kind, user and replies with their signs, got {error!r}") from error
    return rows


def _labelled(kind: PersonaKind, entry: Mapping[str, Any], reply: Mapping[str, Any]) -> LabelledSigns:
    signs = frozenset(reply["signs"])
    if unknown := signs - set(SIGNS[kind]):
        raise ValueError(f"unknown sign {sorted(unknown)[0]!r} of kind {kind}")
    texts = entry.get("told", ""), entry["user"], reply["reply"]
    for text in texts:
        if not isinstance(text, str):
            raise ValueError(f"{text!r} is no text")
    return LabelledSigns(kind, *texts, signs)


def acts_of(reply: str) -> dict[str, float]:
    """The acts that the scripted user's patterns find."""
    found = read_reply(reply).acts
    return {act: float(act in found) for act in ACTS}


def by_phrases(row: LabelledSigns) -> frozenset[str]:
    """The signs that a user without weights finds."""
    return _sure(find(row.kind, row.reply, row.user, row.before, acts_of(row.reply)))


def by_hearing(row: LabelledSigns) -> frozenset[str]:
    """The signs that the hearing user finds: by phrases or by its reader, whichever is surer. Raises NotFetched."""
    from rlver.components.users.heard.appraiser import signs_of
    from rlver.components.users.heard.reading import reader

    heard = reader().hear(row.reply, row.user, row.before)
    return _sure(signs_in(row.kind, [Answered(row.before, "", heard), Answered(row.user, row.reply, heard, signs_of(heard))], 1))


def _sure(signs: Mapping[str, Sign]) -> frozenset[str]:
    return frozenset(name for name, sign in signs.items() if sign.probability >= FOUND)


def measure(rows: Iterable[LabelledSigns], finder: Callable[[LabelledSigns], frozenset[str]] = by_phrases) -> list[Detection]:
    """Every sign, and all together."""
    read = [(row.kind, row.signs, finder(row)) for row in rows]
    figures, sums = [], [0, 0, 0]
    for kind, names in SIGNS.items():
        for name in names:
            mine = [(name in labelled, name in found) for of_kind, labelled, found in read if of_kind is kind]
            counts = [sum(a and b for a, b in mine), sum(b for _, b in mine), sum(a for a, _ in mine)]
            sums = [total + one for total, one in zip(sums, counts, strict=True)]
            figures.append(of_one(name, *counts))
    return [*figures, of_one(EVERY, *sums)]


def signs_table(figures: Sequence[Detection]) -> str:
    """The figures as lines for a terminal."""
    rows = [(one.act, str(one.labelled), str(one.found), shown(one.precision), shown(one.recall)) for one in figures]
    return table([("sign", "labelled", "found", "precision", "recall"), *rows])
