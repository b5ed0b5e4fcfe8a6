"""How far a second, independent labelling agrees with the first: kappa of acts and qualities, weighted kappa and rank correlation of the value.

Both labellers are AI models. So this says how sharply the rules of labelling are drawn, not that people would agree.

Intervals are percentiles over draws of user messages: replies to one message do not come independently.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rlver.components.domain.acts import ACTS
from rlver.components.domain.files import BadFile
from rlver.components.labels.labelled import LETTERS, Labelled
from rlver.components.scoring.statistics import Estimated, Interval, middle, times_drawn
from rlver.components.users.heard.reading import QUALITIES, VALUES

SECOND = Path(__file__).with_name("second_pass.tsv")
HEADER = "style\tsha256 of message and reply\tlabels"
DIGITS = 16  # of the hash
_LABELS = re.compile(r"\[([a-z_, ]*)\] v=([+-]?[0-2]) q=(-|[SPCH]+)")


@dataclass(frozen=True)
class Twice:
    """A reply with its first labels, and what the second labeller says of it."""

    first: Labelled
    acts: frozenset[str]
    value: int
    quality: frozenset[str]


@dataclass(frozen=True)
class Agreement:
    """On one label. `kappa` is None where both always say the same one thing."""

    label: str
    first: int  # replies that have it by the first pass
    second: int
    both: int
    kappa: Estimated | None


@dataclass(frozen=True)
class OfValue:
    """On the value -2..2."""

    same: float  # share of replies with the same value
    same_side: float  # both above 0, both 0 or both below
    weighted_kappa: Estimated | None  # quadratic weights (Cohen 1968)
    rank_correlation: Estimated | None  # Spearman's


def reply_hash(user: str, reply: str) -> str:
    """Of a reply under its message: one like "Okay." stands under several."""
    return hashlib.sha256(f"{user}\n{reply}".encode()).hexdigest()[:DIGITS]


def read_second(rows: Sequence[Labelled], path: Path = SECOND) -> list[Twice]:
    """The replies that were labelled twice, in the order of the file. Raises BadFile with the line."""
    known = {(row.style, reply_hash(row.user, row.reply)): row for row in rows}
    head, *lines = path.read_text(encoding="utf-8").splitlines() or [""]
    if head != HEADER:
        raise BadFile(f"{path}: line 1: expected {HEADER!r}")
    twice: dict[tuple[str, str], Twice] = {}
    for number, line in enumerate(lines, start=2):
        where = f"{path}: line {number}"
        style, digest, labels = [*line.split("\t"), "", ""][:3]
        found = _LABELS.fullmatch(labels)
        acts = frozenset(act.strip() for act in found[1].split(",") if act.strip()) if found else frozenset()
        if found is None or not acts <= set(ACTS):
            raise BadFile(f"{where}: expected style, hash and [acts] v=N q=LETTERS between tabs, with known acts")
        if (style, digest) not in known:
            raise BadFile(f"{where}: no labelled reply of style {style!r} has the hash {digest}")
        if (style, digest) in twice:
            raise BadFile(f"{where}: the reply {digest} of style {style!r} stands here twice")
        quality = frozenset(LETTERS[letter] for letter in found[3] if letter != "-")
        twice[style, digest] = Twice(known[style, digest], acts, int(found[2]), quality)
    return list(twice.values())


def of_acts(twice: Sequence[Twice], samples: int, seed: int) -> list[Agreement]:
    return [_of_one(act, twice, [(act in one.first.acts, act in one.acts) for one in twice], samples, seed) for act in ACTS]


def of_qualities(twice: Sequence[Twice], samples: int, seed: int) -> list[Agreement]:
    return [_of_one(one, twice, [(one in both.first.quality, one in both.quality) for both in twice], samples, seed) for one in QUALITIES]


def of_value(twice: Sequence[Twice], samples: int, seed: int) -> OfValue:
    pairs = [(VALUES.index(one.first.value), VALUES.index(one.value)) for one in twice]
    tables_MKK = _tables(twice, pairs, len(VALUES))
    return OfValue(
        sum(first == second for first, second in pairs) / len(pairs),
        sum((first > 2) - (first < 2) == (second > 2) - (second < 2) for first, second in pairs) / len(pairs),
        estimated(tables_MKK, kappa, samples, seed),
        estimated(tables_MKK, spearman, samples, seed),
    )


def mean_kappa(agreements: Sequence[Agreement]) -> float:
    """Over the labels that have one."""
    known = [one.kappa.value for one in agreements if one.kappa]
    return sum(known) / len(known)


def kappa(tables_SKK: np.ndarray) -> np.ndarray:
    """(S,) Cohen's kappa of tables (first labeller, second labeller) of counts, distances weighted by their square; NaN where chance cannot err."""
    size = tables_SKK.shape[-1]
    weights_KK = (np.arange(size)[:, None] - np.arange(size)) ** 2
    total = tables_SKK.sum(axis=(-2, -1))
    expected_SKK = tables_SKK.sum(axis=-1)[..., :, None] * tables_SKK.sum(axis=-2)[..., None, :]
    by_chance = (weights_KK * expected_SKK).sum(axis=(-2, -1)) / total
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(by_chance > 0, 1 - (weights_KK * tables_SKK).sum(axis=(-2, -1)) / by_chance, np.nan))


def spearman(tables_SKK: np.ndarray) -> np.ndarray:
    """(S,) Spearman's rank correlation of such tables; equal values share their mean rank."""
    total = tables_SKK.sum(axis=(-2, -1))
    first_SK, second_SK = (_centred_ranks(tables_SKK.sum(axis=axis)) for axis in (-1, -2))
    together = (tables_SKK * first_SK[..., :, None] * second_SK[..., None, :]).sum(axis=(-2, -1))
    spread = [(tables_SKK.sum(axis=axis) * ranks**2).sum(axis=-1) for axis, ranks in ((-1, first_SK), (-2, second_SK))]
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(total > 0, together / np.sqrt(spread[0] * spread[1]), np.nan))


def _centred_ranks(counts_SK: np.ndarray) -> np.ndarray:
    return np.asarray(np.cumsum(counts_SK, axis=-1) - counts_SK / 2 - counts_SK.sum(axis=-1, keepdims=True) / 2)


def _of_one(label: str, twice: Sequence[Twice], pairs: Sequence[tuple[bool, bool]], samples: int, seed: int) -> Agreement:
    first, second, both = sum(one for one, _ in pairs), sum(other for _, other in pairs), sum(one and other for one, other in pairs)
    return Agreement(label, first, second, both, estimated(_tables(twice, pairs, 2), kappa, samples, seed))


def _tables(twice: Sequence[Twice], pairs: Sequence[tuple[int, int]], size: int) -> np.ndarray:
    """(messages, K, K): how often the first labeller says the row and the second the column."""
    messages, row = np.unique([one.first.user for one in twice], return_inverse=True)
    first, second = np.array(pairs, dtype=int).T
    tables = np.zeros((len(messages), size, size))
    np.add.at(tables, (row, first, second), 1)
    return tables


def estimated(tables_MKK: np.ndarray, of: Callable[[np.ndarray], np.ndarray], samples: int, seed: int) -> Estimated | None:
    """`of` the sum of tables (clusters, K, K), its interval over clusters drawn anew; None where it is not known."""
    value = float(of(tables_MKK.sum(axis=0)[None])[0])
    if np.isnan(value):
        return None
    drawn = times_drawn(np.random.default_rng(seed), len(tables_MKK), samples)
    values = of(np.tensordot(drawn, tables_MKK, axes=1))
    known = values[~np.isnan(values)]
    return Estimated(value, middle(known) if len(tables_MKK) > 1 else Interval(-1.0, 1.0), len(tables_MKK))
