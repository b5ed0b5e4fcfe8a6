"""How well the signs in replies to users of a kind are found: precision and recall against labels, on replies that no pattern was written on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlver.components.domain.files import BadFile, load_yaml
from rlver.components.domain.persona import PersonaKind
from rlver.components.users.scripted.reading import read_reply
from rlver.components.users.special.appraiser import ACTS
from rlver.components.users.special.rule import Read, signs_in
from rlver.components.users.special.signs import FOUND, SIGNS, Sign, find
from rlver.tasks.runtime.brackets import aligned, shown
from rlver.tasks.studies.acts.detection import Detection, of_one

LABELS = Path(__file__).with_name("labels")
APART = "apart"  # the file of the half that was not seen while the patterns were written; docs/special-users.md says which look came later
EVERY = "all signs"
Finder = Callable[[PersonaKind, str, str, str], frozenset[str]]  # (kind, before, user, reply): the signs in the reply


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


def by_phrases(kind: PersonaKind, before: str, user: str, reply: str) -> frozenset[str]:
    """The signs that a user without weights finds, given the acts that the scripted user's patterns find."""
    acts = read_reply(reply).acts
    return _sure(find(kind, reply, user, before, {act: float(act in acts) for act in ACTS}))


def by_hearing(kind: PersonaKind, before: str, user: str, reply: str) -> frozenset[str]:
    """The signs that the hearing user finds: what pays by its reader, what costs by it or by phrases. Raises NotFetched."""
    from rlver.components.users.heard.appraiser import signs_of
    from rlver.components.users.heard.reading import reader

    heard = reader().hear(reply, user, before)
    return _sure(signs_in(kind, Read(reply, heard, signs_of(heard)), user, before))


def _sure(signs: Mapping[str, Sign]) -> frozenset[str]:
    return frozenset(name for name, sign in signs.items() if sign.probability >= FOUND)


def measure(rows: Sequence[LabelledSigns], finder: Finder = by_phrases) -> list[Detection]:
    """Every sign, and all together."""
    counts = {}
    for kind, names in SIGNS.items():
        read = [(row.signs, finder(kind, row.before, row.user, row.reply)) for row in rows if row.kind is kind]
        for name in names:
            right = sum(name in labelled & found for labelled, found in read)
            counts[name] = right, sum(name in found for _, found in read), sum(name in labelled for labelled, _ in read)
    sums = map(sum, zip(*counts.values(), strict=True))
    return [*(of_one(name, *of) for name, of in counts.items()), of_one(EVERY, *sums)]


def signs_table(figures: Sequence[Detection]) -> str:
    """The figures as lines for a terminal."""
    rows = ((one.act, one.labelled, one.found, shown(one.precision), shown(one.recall)) for one in figures)
    return aligned(("sign", "labelled", "found", "precision", "recall"), rows)
