"""How well an appraiser reads dialogue acts: what it finds in each labelled reply against what the labels say the reply does.

Who finds the acts, and how much a reply moves the user, are arguments: `read_by_patterns` and `taken_by_scripted` are the scripted user's.

Every figure has a 95% interval. Precision and recall of one act are shares: Wilson's. So is that of F1, which is 2J / (1 + J) of the
share J = right / (labelled or found). Figures over several acts are resampled by user message: acts of one reply, and replies to one
message, do not come independently.

What misread acts do to the reward: how the user takes each labelled reply, by what the labels say the reply does. All of it as text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import not_
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

from rlver.components.domain.emotion import LARGEST_CHANGE
from rlver.components.domain.files import BadFile, load_yaml
from rlver.components.scoring.statistics import Estimated, Interval, by_cluster, cluster_bootstrap, middle, times_drawn, wilson
from rlver.components.settings.settings import Settings
from rlver.components.users.scripted.appraiser import Listener, appraise
from rlver.components.users.scripted.effects import DIFFICULTIES, Difficulty
from rlver.components.users.scripted.patterns import GENERIC, SERVING
from rlver.components.users.scripted.reading import HARMFUL, read_reply
from rlver.tasks.runtime.brackets import aligned, shown

KINDS = {"serving": tuple(SERVING), "polite": tuple(GENERIC), "harmful": tuple(HARMFUL)}
ACTS = tuple(act for acts in KINDS.values() for act in acts)
EVERY, MEAN = "all acts (micro)", "mean of acts (macro)"
PACKAGED = Path(__file__).with_name("act_labels")
_FIELDS = {"user", "reply", "acts"}


def _any_of(*acts: str) -> Callable[[frozenset[str]], bool]:
    return lambda of_reply: not of_reply.isdisjoint(acts)


_REPLIES = {**{f"replies with a {kind} act": _any_of(*acts) for kind, acts in KINDS.items()}, "replies with no act": not_}


class ReplyWithActs(Protocol):
    """A reply, the user's message it answers, and the acts that the labels find in it; no act is an answer too."""

    @property
    def user(self) -> str: ...

    @property
    def reply(self) -> str: ...

    @property
    def acts(self) -> frozenset[str]: ...


Row = TypeVar("Row", bound=ReplyWithActs)
Finder = Callable[[Row], frozenset[str]]  # the acts that a reader finds in the reply
Taker = Callable[[Row], int]  # points by which the reply moves the user's emotion


@dataclass(frozen=True)
class LabelledReply:
    """See ReplyWithActs; as the YAML files hold it."""

    user: str
    reply: str
    acts: frozenset[str]


def read_by_patterns(row: ReplyWithActs) -> frozenset[str]:
    """The acts that the scripted user finds."""
    return read_reply(row.reply).acts


@dataclass(frozen=True)
class Detection:
    """How one act or sign, or several together, are detected. A figure is None where there is nothing to count."""

    act: str
    labelled: int
    found: int
    precision: Estimated | None
    recall: Estimated | None
    f1: Estimated | None


def load_labels(path: Path) -> list[LabelledReply]:
    """The labelled replies of a YAML file: a list of {user, reply, acts}. Raises BadFile with the number of the entry."""
    rows = load_yaml(path)
    if not isinstance(rows, list) or not rows:
        raise BadFile(f"{path}: expected a list of labelled replies, each with user, reply and acts")
    return [_labelled(row, f"{path}: entry {number}") for number, row in enumerate(rows, start=1)]


def labelled(files: Sequence[Path]) -> dict[str, list[LabelledReply]]:
    """The labelled replies by style, which is the file's name; without files those that come with this project."""
    paths = list(files) or sorted(PACKAGED.glob("*.yaml"))
    if len({path.stem for path in paths}) < len(paths):
        raise BadFile(f"two files have the same name, and a style is a file's name: {', '.join(map(str, paths))}; rename one")
    return {path.stem: load_labels(path) for path in paths}


def _labelled(row: Any, where: str) -> LabelledReply:
    if not isinstance(row, dict) or set(row) != _FIELDS:
        found = ", ".join(map(str, row)) if isinstance(row, dict) else repr(row)
        raise BadFile(f"{where}: expected user, reply and acts, got {found}")
    if not isinstance(row["user"], str) or not isinstance(row["reply"], str) or not isinstance(row["acts"], list):
        raise BadFile(f"{where}: user and reply must be texts, acts a list")
    unknown = [act for act in row["acts"] if act not in ACTS]
    if unknown:
        raise BadFile(f"{where}: unknown act {unknown[0]!r}: choose from {', '.join(ACTS)}, or [] for none")
    return LabelledReply(row["user"], row["reply"], frozenset(row["acts"]))


def detection(rows: Sequence[Row], finder: Finder[Row], samples: int, seed: int) -> list[Detection]:
    """Every act that is labelled or found; replies with any act of a kind, and with none; all acts together (micro); their mean (macro)."""
    read = [(finder(row), row.acts) for row in rows]

    def counted_RC(matches: Callable[[frozenset[str]], bool]) -> np.ndarray:
        """For each reply, whether it matches by both, by what is found, by label."""
        found, labelled = np.array([[matches(acts) for acts in both] for both in read], dtype=bool).T
        return np.stack([found & labelled, found, labelled], axis=-1)

    messages, message_R = np.unique([row.user for row in rows], return_inverse=True)
    counts_MAC = np.zeros((len(messages), len(ACTS), 3))  # [user message, act, (right, found, labelled)]
    np.add.at(counts_MAC, message_R, np.stack([counted_RC(_any_of(act)) for act in ACTS], axis=1))
    by_act = zip(ACTS, counts_MAC.sum(axis=0).tolist(), strict=True)
    results = [of_one(act, *counts) for act, counts in by_act if any(counts)]
    if results:
        drawn_SAC = np.tensordot(times_drawn(np.random.default_rng(seed), len(counts_MAC), samples), counts_MAC, axes=1)
        results += [of_one(name, *counted_RC(matches).sum(axis=0).tolist()) for name, matches in _REPLIES.items()]
        results += [_of_all(counts_MAC, drawn_SAC), _mean_of_acts(counts_MAC, drawn_SAC)]
    return results


def wrongly_read(rows: Iterable[Row], finder: Finder[Row]) -> list[Row]:
    """The replies in which an act is overlooked or invented."""
    return [row for row in rows if finder(row) != row.acts]


def of_one(act: str, right: float, found: float, labelled: float) -> Detection:
    overlap = share_of(right, found + labelled - right)
    f1 = overlap and Estimated(_f1(overlap.value), Interval(*map(_f1, overlap.ci95)), overlap.n)
    return Detection(act, int(labelled), int(found), share_of(right, found), share_of(right, labelled), f1)


def share_of(part: float, whole: float) -> Estimated | None:
    return Estimated(part / whole, wilson(part / whole, int(whole)), int(whole)) if whole else None


def _f1(overlap: float) -> float:
    return 2 * overlap / (1 + overlap)


def _figures(counts: np.ndarray) -> np.ndarray:
    """(precision, recall, F1) of (right, found, labelled) in the last axis; NaN where there is nothing to count."""
    right, found, labelled = counts[..., 0], counts[..., 1], counts[..., 2]
    with np.errstate(invalid="ignore"):
        return np.stack([right / found, right / labelled, 2 * right / (found + labelled)], axis=-1)


def _of_all(counts_MAC: np.ndarray, drawn_SAC: np.ndarray) -> Detection:
    return _resampled_detection(EVERY, counts_MAC, *(_figures(counts.sum(axis=-2)) for counts in (counts_MAC.sum(axis=0), drawn_SAC)))


def _mean_of_acts(counts_MAC: np.ndarray, drawn_SAC: np.ndarray) -> Detection:
    """The mean over the acts that can be counted; an act that is never found has no precision, and counts as F1 0."""
    counts_AC = counts_MAC.sum(axis=0)
    seen = counts_AC.any(axis=-1)
    figures = (_figures(counts) for counts in (counts_AC[seen], drawn_SAC[:, seen]))
    return _resampled_detection(MEAN, counts_MAC, *(np.ma.masked_invalid(one).mean(axis=-2).filled(np.nan) for one in figures))


def _resampled_detection(name: str, counts_MAC: np.ndarray, figures: np.ndarray, drawn_SF: np.ndarray) -> Detection:
    """The three figures, each with the percentiles of its resampled values; draws without anything to count are left out. A single message
    says nothing about the spread."""
    messages = len(counts_MAC)
    _, found, labelled = counts_MAC.sum(axis=(0, 1))
    precision, recall, f1 = (
        None
        if np.isnan(value)
        else Estimated(float(value), middle(drawn[~np.isnan(drawn)]) if messages > 1 else Interval(0.0, 1.0), messages)
        for value, drawn in zip(figures, drawn_SF.T, strict=True)
    )
    return Detection(name, int(labelled), int(found), precision, recall, f1)


_STRANGER = Listener(need=None)
_CHANGES = Interval(-LARGEST_CHANGE, LARGEST_CHANGE)
SERVES, HURTS, POLITE, NOTHING = "serves a need, hurts nobody", "hurts", "is polite, no more", "does nothing"


@dataclass(frozen=True)
class Consequence:
    """How the replies that the labels describe as `reply` are taken: shares after which the emotion rises or falls, and the mean change."""

    reply: str
    rises: Estimated
    falls: Estimated
    change: Estimated  # points of -10..10


def taken_by_scripted(difficulty: Difficulty) -> Taker[ReplyWithActs]:
    """By a scripted user whose need nobody knows, as the first reply of a dialogue."""
    return lambda row: appraise(_STRANGER, difficulty, [], row.user, row.reply).change


def consequences(rows: Sequence[Row], taker: Taker[Row], samples: int, seed: int) -> list[Consequence]:
    """One for each description that occurs; the interval of the change is resampled by user message."""
    changes: dict[str, list[tuple[str, int]]] = {kind: [] for kind in (SERVES, HURTS, POLITE, NOTHING)}
    for row in rows:
        changes[_described(row.acts)].append((row.user, taker(row)))
    return [_consequence(kind, of_kind, samples, seed) for kind, of_kind in changes.items() if of_kind]


def _described(acts: frozenset[str]) -> str:
    if not acts.isdisjoint(KINDS["harmful"]):
        return HURTS
    if not acts.isdisjoint(KINDS["serving"]):
        return SERVES
    return POLITE if acts else NOTHING


def _consequence(kind: str, changes: Sequence[tuple[str, int]], samples: int, seed: int) -> Consequence:
    n = len(changes)
    rises, falls = (sum(change * sign > 0 for _, change in changes) / n for sign in (1, -1))
    mean = cluster_bootstrap(by_cluster(changes), samples, seed, _CHANGES)
    return Consequence(kind, Estimated(rises, wilson(rises, n), n), Estimated(falls, wilson(falls, n), n), mean)


def report(styles: Mapping[str, list[LabelledReply]], settings: Settings) -> str:
    """The scripted user's reading: two tables for each style and, if there are several, for all replies.

    The first says what is read, the second what that does to the user's emotion.
    """
    samples, seed = settings.evaluation.bootstrap_samples, settings.seed
    difficulty = DIFFICULTIES[settings.simulator.difficulty]
    together = {"all styles": [row for rows in styles.values() for row in rows]} if len(styles) > 1 else {}
    parts = []
    for style, rows in {**styles, **together}.items():
        messages, faultless = len({row.user for row in rows}), len(rows) - len(wrongly_read(rows, read_by_patterns))
        parts.append(f"{style}: {len(rows)} replies to {messages} messages; {faultless} read without a mistake")
        parts.append(detections(detection(rows, read_by_patterns, samples, seed)))
        parts.append(consequence_table(consequences(rows, taken_by_scripted(difficulty), samples, seed)))
    return "\n\n".join(parts)


def mistakes(styles: Mapping[str, list[LabelledReply]]) -> str:
    """Every reply in which an act is overlooked or invented, with these acts."""
    lines = []
    for style, rows in styles.items():
        for row in wrongly_read(rows, read_by_patterns):
            found = read_by_patterns(row)
            overlooked, invented = (", ".join(sorted(acts)) or "-" for acts in (row.acts - found, found - row.acts))
            lines.append(f"{style}: overlooked {overlooked}; invented {invented}: {' '.join(row.reply.split())}")
    return "\n".join(lines)


def detections(rows: Sequence[Detection]) -> str:
    header = ("act", "labelled", "found", "precision", "recall", "F1")
    return aligned(header, ((one.act, one.labelled, one.found, *map(shown, (one.precision, one.recall, one.f1))) for one in rows))


def consequence_table(taken: Sequence[Consequence]) -> str:
    header = ("a reply that", "replies", "emotion rises", "falls", "mean change")
    return aligned(header, ((one.reply, one.rises.n, *map(shown, (one.rises, one.falls, one.change))) for one in taken))
