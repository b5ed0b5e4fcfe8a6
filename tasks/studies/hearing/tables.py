"""The figures of the hearing user as plain text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from rlver.components.domain.acts import ACTS, SURE
from rlver.components.domain.transcript import Appraisal
from rlver.components.labels import labelled as labels
from rlver.components.scoring.statistics import Estimated, proportion
from rlver.components.users.heard.reading import QUALITIES, Heard
from rlver.components.users.scripted.appraiser import Listener
from rlver.components.users.scripted.effects import SERVES as SERVES_NEED
from rlver.tasks.runtime.brackets import aligned, shown
from rlver.tasks.studies.acts.detection import EVERY as MICRO
from rlver.tasks.studies.acts.detection import (
    HURTS,
    SERVES,
    Finder,
    ReplyWithActs,
    Taker,
    consequence_table,
    consequences,
    detection,
    detections,
    read_by_patterns,
    taken_by_scripted,
    wrongly_read,
)
from rlver.tasks.studies.hearing.agreement import Agreement, OfValue, Twice, mean_kappa, of_acts, of_qualities, of_value
from rlver.tasks.studies.hearing.drawn import Drawn, made
from rlver.tasks.studies.hearing.figures import (
    Group,
    Taken,
    by_trap,
    by_value,
    calibration,
    expected_calibration_error,
    group,
    order,
    told_apart,
)
from rlver.tasks.studies.hearing.listening import Listening
from rlver.tasks.studies.hearing.supporters import Earned

EVERY_LATER = "all of these"
_SHOWN = 0.15  # the least probability of an act that `say` shows


def figures_report(groups: dict[str, list[ReplyWithActs]], listening: Listening, samples: int, seed: int) -> str:
    """In short, with the scripted user beside it; then all figures of each group, order, calibration and traps."""
    own = [row for rows in groups.values() for row in rows if isinstance(row, labels.Labelled)]
    apart = list(dict.fromkeys(own))
    listening.ahead(row for rows in groups.values() for row in rows)
    parts = [_in_short(groups, listening, samples, seed)]
    for name, rows in groups.items():
        messages, faultless = len({row.user for row in rows}), len(rows) - len(wrongly_read(rows, listening.found))
        parts.append(f"{name}: {len(rows)} replies to {messages} messages; {faultless} read without a mistake")
        parts.append(detections(detection(rows, listening.found, samples, seed)))
        parts.append(consequence_table(consequences(rows, listening.change, samples, seed)))
    taken = [Taken(row.user, row.value, listening.change(row), row.trap) for row in apart]
    parts += ["Of two replies to one message, does the better-labelled one get more?", _orders(taken)]
    parts += _calibrations(apart, listening)
    parts += ["How replies are taken, by their value", _groups("value", by_value(taken, samples, seed))]
    parts += [
        "How good replies (value +1 or +2) that serve a need are taken by users who have it, as the first reply",
        _groups("need", list(_served(apart, listening, samples, seed))),
    ]
    parts += ["How the hard cases are taken, by trap", _groups("trap", by_trap(taken, samples, seed))]
    nonsense = made(apart, seed, share=1.0)
    listening.ahead(nonsense)
    mixed = [Taken(row.user, row.value, listening.change(row)) for row in nonsense]
    if mixed:
        parts += [
            "How nonsense is taken that was made of these replies",
            _groups("replies", [group("their words mixed", mixed, samples, seed)]),
        ]
    return "\n\n".join(parts)


def _in_short(groups: dict[str, list[ReplyWithActs]], listening: Listening, samples: int, seed: int) -> str:
    readers: dict[str, tuple[Finder[ReplyWithActs], Taker[ReplyWithActs]]] = {
        "heard": (listening.found, listening.change),
        "scripted": (read_by_patterns, taken_by_scripted(listening.difficulty)),
    }
    lines = []
    for name, rows in groups.items():
        for reader, (finder, taker) in readers.items():
            every = next((one for one in detection(rows, finder, samples, seed) if one.act == MICRO), None)
            effect = {one.reply: one for one in consequences(rows, taker, samples, seed)}
            rises = effect[SERVES].rises if SERVES in effect else None
            falls = effect[HURTS].falls if HURTS in effect else None
            found = (every.recall, every.precision) if every else (None, None)
            lines.append((name, reader, *map(shown, (*found, rises, falls))))
    return aligned(("never fitted", "user", "recall", "precision", "rises if served", "falls if hurt"), lines)


def _orders(taken: Sequence[Taken]) -> str:
    orders = ((apart, order(taken, apart)) for apart in (1, 2, 3))
    rows = ((f"{apart} or more", one.pairs, shown(one.better), f"{one.same:.2f}") for apart, one in orders)
    return aligned(("values apart by", "pairs", "the better one gets more", "both the same"), rows)


def _calibrations(rows: Sequence[labels.Labelled], listening: Listening) -> list[str]:
    acts = [(row.situation, listening.heard(row).acts[act], act in row.acts) for row in rows for act in ACTS]
    qualities = [(row.situation, listening.heard(row).quality[one], one in row.quality) for row in rows for one in QUALITIES]
    parts = []
    for name, claims in (("acts", acts), ("qualities", qualities)):
        bins = calibration(claims)
        tenths = ((f"{one.low:.1f} to {one.high:.1f}", one.n, f"{one.mean:.2f}", shown(one.labelled)) for one in bins)
        table = aligned(("probability", "claims", "mean", "labelled"), tenths)
        parts += [f"Calibration of {name}: expected error {expected_calibration_error(bins):.3f}", table]
    return parts


def _groups(noun: str, groups: Sequence[Group]) -> str:
    rows = ((one.name, one.replies, f"{one.value:+.2f}", *map(shown, (one.rises, one.falls, one.change))) for one in groups)
    return aligned((noun, "replies", "mean value", "emotion rises", "falls", "mean change"), rows)


def _served(rows: Sequence[labels.Labelled], listening: Listening, samples: int, seed: int) -> Iterator[Group]:
    every = []
    for need, act in SERVES_NEED.items():
        user = replace(listening, listener=Listener(need))
        taken = [Taken(row.user, row.value, user.change(row)) for row in rows if row.value > 0 and act in row.acts]
        every += taken
        if taken:
            yield group(need.value, taken, samples, seed)
    if every:
        yield group("any", every, samples, seed)


def since_report(later: Sequence[labels.Labelled], listening: Listening, samples: int, seed: int) -> str:
    """In short, of replies that were labelled after the reader was fitted: each style, and all; and the order of two replies to one message."""
    groups: dict[str, list[ReplyWithActs]] = {
        style: [row for row in later if row.style == style] for style in sorted({row.style for row in later})
    }
    listening.ahead(later)
    taken = [Taken(row.user, row.value, listening.change(row)) for row in later]
    parts = (
        "Labelled since the reader was fitted",
        _in_short({**groups, EVERY_LATER: list(later)}, listening, samples, seed),
        _orders(taken),
    )
    return "\n\n".join([*parts, _told_apart("labelled since", {EVERY_LATER: later}, listening)])


def strict_report(groups: Mapping[str, Sequence[labels.Labelled]], listening: Listening) -> str:
    """How far sense and the change of the emotion tell apart replies that were read strictly: of small models, and written for them."""
    heading = "How often the one of two replies that is so gets more than the one that is not (area under the ROC curve)"
    return f"{heading}\n\n{_told_apart('read strictly, never fitted', groups, listening)}"


def _told_apart(noun: str, groups: Mapping[str, Sequence[labels.Labelled]], listening: Listening) -> str:
    wanted: dict[str, Callable[[labels.Labelled], bool]] = {
        "is coherent": lambda row: "coherent" in row.quality,
        "helped or reached": lambda row: row.value > 0,
        "is not nonsense": lambda row: row.trap != "nonsense",
    }
    readings: list[Callable[[labels.Labelled], float]] = [lambda row: listening.heard(row).quality["coherent"], listening.change]
    header = (noun, "a reply that", "replies", "by its coherence", "by the change of the emotion")
    lines = []
    for group_name, rows in groups.items():
        listening.ahead(rows)
        for name, is_so in wanted.items():
            areas = [told_apart((row.situation, reads(row), is_so(row)) for row in rows) for reads in readings]
            lines.append((group_name, name, f"{sum(map(is_so, rows))} of {len(rows)}", *map(shown, areas)))
    return aligned(header, lines)


def short_report(short: Drawn, listening: Listening, samples: int, seed: int) -> str:
    """How short replies are taken that were written to serve the user's need: where they stand, and under another message. Nobody labelled them."""
    header = ("short, never fitted, unlabelled", "replies", "its act is found", "emotion rises", "falls", "mean change")
    lines = []
    for name, rows in zip(("where they stand", "under another message"), short, strict=True):
        listening.ahead(rows)
        one = group(name, [Taken(row.user, row.value, listening.change(row)) for row in rows], samples, seed)
        found = {str(number): [float(row.acts <= listening.found(row))] for number, row in enumerate(rows) if row.acts}
        told = (proportion(found) if found else None, one.rises, one.falls, one.change)
        lines.append((name, one.replies, *map(shown, told)))
    return f"Short replies that were written to serve the need\n\n{aligned(header, lines)}"


def earned_report(found: Sequence[Earned], who: str) -> str:
    return f"{who}\n\n" + aligned(("supporter", "final emotion"), ((one.supporter, shown(one.final)) for one in found))


def agreement_report(twice: Sequence[Twice], samples: int, seed: int) -> str:
    acts, qualities, value = of_acts(twice, samples, seed), of_qualities(twice, samples, seed), of_value(twice, samples, seed)
    messages = len({one.first.user for one in twice})
    return "\n\n".join(
        [
            f"{len(twice)} replies to {messages} messages, labelled twice and independently; both labellers are AI models, neither is a person",
            _agreements("act", acts),
            _agreements("quality", qualities),
            _values(value),
            "The second labeller as if it were the reader, by the labels of the first",
            *_as_reader(twice, samples, seed),
        ]
    )


def _as_reader(twice: Sequence[Twice], samples: int, seed: int) -> tuple[str, str]:
    second = {one.first: one.acts for one in twice}
    every = [one for one in detection(list(second), second.__getitem__, samples, seed) if one.act == MICRO]
    return detections(every), _orders([Taken(one.first.user, one.first.value, one.value) for one in twice])


def _agreements(noun: str, agreements: Sequence[Agreement]) -> str:
    rows = [(one.label, one.first, one.second, one.both, shown(one.kappa)) for one in agreements]
    return aligned((noun, "first", "second", "both", "kappa"), [*rows, ("mean", "", "", "", f"{mean_kappa(agreements):.2f}")])


def _values(value: OfValue) -> str:
    rows: list[tuple[str, Estimated | float | None]] = [
        ("weighted kappa", value.weighted_kappa),
        ("rank correlation", value.rank_correlation),
        ("the same value", value.same),
        ("the same side of 0", value.same_side),
    ]
    return aligned(("value -2..2", "figure"), ((name, f"{one:.2f}" if isinstance(one, float) else shown(one)) for name, one in rows))


def said_report(heard: Heard, appraisal: Appraisal, who: str) -> str:
    """What is heard in one reply, and what follows from it."""
    spoken_of = sorted((act for act in ACTS if heard.acts[act] >= _SHOWN), key=lambda act: -heard.acts[act])
    acts = [(act, f"{heard.acts[act]:.2f}", "yes" if heard.acts[act] >= SURE else "-", heard.spans.get(act, "")) for act in spoken_of]
    quality = [*((one, f"{heard.quality[one]:.2f}") for one in QUALITIES), ("value -2..2", f"{heard.value:+.2f}")]
    reasons = []
    for one in appraisal.evidence:
        if one.step != "content" or one.points:
            probability = "-" if one.probability is None else f"{one.probability:.2f}"
            reasons.append((one.step, one.what, f"{one.points:+.2f}", probability, one.span))
    total = sum(one.points for one in appraisal.evidence)
    end = f"change {appraisal.change:+d}: {total:+.2f} points, rounded and held within -10..10; {who}"
    tables = (
        aligned(("act", "probability", "found", "words"), acts),
        aligned(("quality", "probability"), quality),
        aligned(("step", "what", "points", "probability", "words"), reasons),
    )
    return "\n\n".join([*tables, end])
