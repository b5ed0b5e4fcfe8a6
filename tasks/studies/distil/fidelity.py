"""The fidelity card: how far an appraiser agrees with recorded users on dialogues that it did not learn from.

*Teacher-forced*: before each reply the recorded emotion is told. *Free-running*: it is not, and emotion and stops follow from the
appraiser's own changes. In both the user's words so far are given as recorded, and they react to the recorded emotion, as a user's do.

The fidelity card as people read it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlver.components.domain.emotion import EmotionRules
from rlver.components.report.tables import plain_table
from rlver.components.settings.study_sections import DistilParameters
from rlver.components.users.distilled import features as columns
from rlver.components.users.distilled.features import CLASSES, NAMES, NEEDS
from rlver.tasks.runtime.brackets import in_brackets
from rlver.tasks.studies.distil import agreement
from rlver.tasks.studies.distil.agreement import BASELINES, PairedAppraisals, baseline
from rlver.tasks.studies.distil.examples import Fold, LearningMaterial, cross_folds
from rlver.tasks.studies.distil.learn import Learned, learn, readings

_BINS = 10

Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Scored:
    """Predictions for rows that were not learned from, one array entry a row. `expected` has points, `change` values of the grid."""

    rows: NDArray[np.int64]
    words_expected: Numbers
    words_change: NDArray[np.int64]
    told_expected: Numbers
    told_change: NDArray[np.int64]
    baselines: dict[str, Numbers]


def scored(material: LearningMaterial, learned: Learned, rows: NDArray[np.int64]) -> Scored:
    examples = material.examples
    seen = readings(material, learned, rows)
    words = learned.by_words.predict(seen)
    told = learned.by_emotion.predict(np.column_stack([seen, examples.emotion[rows], examples.last_change[rows]]))
    ridge = seen[:, columns.names(learned.reply_coefficients.shape[1] - 1).index("reply:change")]
    return Scored(
        rows=rows,
        words_expected=words,
        words_change=learned.words_calibration.changes(words),
        told_expected=told,
        told_change=learned.emotion_calibration.changes(told),
        baselines={**{name: baseline(name, examples, learned.rows, rows) for name in BASELINES}, "n-gram ridge": ridge},
    )


def cross_fitted(material: LearningMaterial, parameters: DistilParameters, seed: int) -> Iterator[tuple[int, int, Scored]]:
    """(fold, folds, its predictions): together every row once, by what has seen neither its persona nor, of several, its policy model."""
    folds = list(cross_folds(material.examples.dialogues, parameters.persona_folds, parameters.policy_folds))
    for number, fold in enumerate(folds, start=1):
        yield number, len(folds), fold_scored(material, fold, parameters, seed)


def fold_scored(material: LearningMaterial, fold: Fold, parameters: DistilParameters, seed: int) -> Scored:
    if not fold.scored:
        raise ValueError(
            "no policy model that is held out talked with a persona that is held out, so nothing can be tested; "
            "record all models with the same personas"
        )
    learned = learn(material, material.examples.rows_of(fold.learned), parameters, seed)
    return scored(material, learned, material.examples.rows_of(fold.scored))


def together(parts: Iterable[Scored]) -> Scored:
    """All parts as one, in the order of the rows."""
    kept = list(parts)
    order = np.argsort(np.concatenate([part.rows for part in kept]))

    def joined(arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
        return np.asarray(np.concatenate(arrays)[order])

    return Scored(
        rows=joined([part.rows for part in kept]),
        words_expected=joined([part.words_expected for part in kept]),
        words_change=joined([part.words_change for part in kept]),
        told_expected=joined([part.told_expected for part in kept]),
        told_change=joined([part.told_change for part in kept]),
        baselines={name: joined([part.baselines[name] for part in kept]) for name in kept[0].baselines},
    )


def fidelity_of(material: LearningMaterial, predicted: Scored, rules: EmotionRules, samples: int, seed: int) -> dict[str, Any]:
    """All figures of the predictions, as the card holds them."""
    examples = material.examples
    where = _Where(material, predicted.rows)
    change = examples.change[predicted.rows]

    def agreed(paired: PairedAppraisals) -> dict[str, Any]:
        return {
            "r": _plain(agreement.correlation(paired, samples, seed)),
            "sign_accuracy": _plain(agreement.sign_accuracy(paired, samples, seed)),
        }

    def per_turn(said: Numbers) -> dict[str, Any]:
        paired = PairedAppraisals(said, change, where.persona)
        return agreed(paired) | {"direction_agreement": _plain(agreement.direction_agreement(paired, where.dialogue, samples, seed))}

    def groups(names: Sequence[str | None]) -> dict[str, Any]:
        of_row, every = np.array([str(name) for name in names]), PairedAppraisals(predicted.words_expected, change, where.persona)
        of = {name: of_row == name for name in sorted(set(of_row.tolist())) if name != "None"}
        return {name: agreed(PairedAppraisals(*(column[kept] for column in every))) for name, kept in of.items()}

    dialogues = [examples.dialogues[number] for number in examples.dialogue[predicted.rows]]
    return {
        "dialogues": len(where.first),
        "turns": len(predicted.rows),
        "teacher_forced": {
            "expected": per_turn(predicted.told_expected),
            "change": per_turn(predicted.told_change.astype(np.float64)),
        },
        "free_running": {
            "expected": per_turn(predicted.words_expected),
            "change": per_turn(predicted.words_change.astype(np.float64)),
            **_per_dialogue(material, predicted, where, rules, samples, seed),
        },
        "baselines": {
            name: per_turn(values) | _dialogue_mean(values, change, where, samples, seed) for name, values in predicted.baselines.items()
        },
        "by_need": groups([NEEDS[number] if number >= 0 else None for number in examples.need[predicted.rows].tolist()]),
        "by_class": groups(_classes(examples.measured[predicted.rows])),
        "by_policy": groups([dialogue.policy for dialogue in dialogues]),
        "calibration": _table(predicted.words_expected, change),
    }


class _Where:
    """Where rows belong: numbers of their persona and dialogue, and the first row of every dialogue."""

    def __init__(self, material: LearningMaterial, rows: NDArray[np.int64]) -> None:
        examples = material.examples
        self.dialogue = examples.dialogue[rows]
        names = sorted({dialogue.persona_id for dialogue in examples.dialogues})
        policies = sorted({dialogue.policy for dialogue in examples.dialogues})
        of = {name: number for number, name in enumerate(names)}
        self.persona = np.array([of[examples.dialogues[number].persona_id] for number in self.dialogue], dtype=np.int64)
        self.first = np.flatnonzero(np.append(True, self.dialogue[1:] != self.dialogue[:-1]))
        self.policy = np.array([policies.index(examples.dialogues[number].policy) for number in self.dialogue[self.first]], dtype=np.int64)

    def means(self, values: Numbers) -> Numbers:
        return np.array([part.mean() for part in np.split(values, self.first[1:])])


def _classes(measured: Numbers) -> list[str | None]:
    """The persona class of every row, from its measures."""
    is_class = measured[:, [NAMES.index(f"class:{kind}") for kind in CLASSES]]
    return [CLASSES[int(one.argmax())] if one.any() else None for one in is_class]


def _dialogue_mean(values: Numbers, change: Numbers, where: _Where, samples: int, seed: int) -> dict[str, Any]:
    paired = PairedAppraisals(where.means(values), where.means(change), where.persona[where.first])
    return {"dialogue_mean_r": _plain(agreement.correlation(paired, samples, seed))}


def _per_dialogue(
    material: LearningMaterial, predicted: Scored, where: _Where, rules: EmotionRules, samples: int, seed: int
) -> dict[str, Any]:
    examples = material.examples
    parts = np.split(predicted.words_change, where.first[1:])
    dialogues = [examples.dialogues[number] for number in where.dialogue[where.first]]
    final = np.array([agreement.free_run(one, part.tolist(), rules) for one, part in zip(dialogues, parts, strict=True)], dtype=np.float64)
    ends = np.append(where.first[1:], len(predicted.rows)) - 1
    last = [dialogue.turns[int(examples.turn[predicted.rows[end]])].emotion for dialogue, end in zip(dialogues, ends, strict=True)]
    recorded = np.array(last, dtype=np.float64)
    finals = PairedAppraisals(final, recorded, where.persona[where.first])

    def rates(values: Numbers) -> dict[str, float]:
        return {
            "mean": float(values.mean()),
            "success_rate": float(np.mean(values >= rules.ceiling)),
            "failure_rate": float(np.mean(values < rules.floor)),
        }

    change = examples.change[predicted.rows]
    return {
        **_dialogue_mean(predicted.words_expected, change, where, samples, seed),
        "final_r": _plain(agreement.correlation(finals, samples, seed)),
        "final_mae": _plain(agreement.mean_error(finals, samples, seed)),
        "final": {"said": rates(final), "recorded": rates(recorded)},
        "ranking": {name: _plain(figure) for name, figure in agreement.ranking(finals, where.policy, samples, seed).items()},
    }


def _table(expected: Numbers, change: Numbers) -> list[dict[str, float]]:
    order = np.argsort(expected, kind="stable")
    return [
        {"expected": float(expected[part].mean()), "recorded": float(change[part].mean()), "n": len(part)}
        for part in np.array_split(order, _BINS)
        if len(part)
    ]


def _plain(figure: agreement.Agreed) -> dict[str, Any]:
    rounded = None if figure.value is None else round(figure.value, 4)
    return {"value": rounded, "ci95": None if figure.ci95 is None else [round(end, 4) for end in figure.ci95], "n": figure.n}


def markdown(card: dict[str, Any]) -> str:
    """The card of `rlver distil` or `rlver fidelity` as Markdown."""
    lines = [f"# Fidelity of {card['appraiser']}", "", card["how"], ""]
    for name, figures in card["splits"].items():
        lines += [
            f"## {name}",
            "",
            f"{figures['dialogues']} dialogues, {figures['turns']} judged replies. 95% intervals resample personas whole, or leave out each model in turn (jackknife).",
            "",
        ]
        lines += [_main(figures), "", _baselines(figures), "", _groups(figures), "", _calibration(figures), ""]
        if guard := figures.get("guard"):
            lines += [f"The guard takes the users of {guard['refused']} of {guard['personas']} held-out personas for strangers.", ""]
    if card.get("learning_curve"):
        header = ("recordings", "turns", "r, free-running", "r, teacher-forced", "sign, teacher-forced")
        points = (
            (
                point["dialogues"],
                point["turns"],
                *(_shown({"value": point[name], "ci95": None}) for name in ("free_r", "told_r", "told_sign")),
            )
            for point in card["learning_curve"]
        )
        lines += ["## Learning curve", "", plain_table(header, points)]
    return "\n".join(lines).rstrip() + "\n"


def _main(figures: dict[str, Any]) -> str:
    told, free = figures["teacher_forced"], figures["free_running"]
    rows = [
        ("teacher-forced, per turn", "r of the expected change", told["expected"]["r"]),
        ("", "r of the change on the grid", told["change"]["r"]),
        ("", "sign accuracy", told["change"]["sign_accuracy"]),
        ("", "direction agreement", told["expected"]["direction_agreement"]),
        ("free-running, per turn", "r of the expected change", free["expected"]["r"]),
        ("", "r of the change on the grid", free["change"]["r"]),
        ("", "sign accuracy", free["change"]["sign_accuracy"]),
        ("free-running, per dialogue", "r of the mean change", free["dialogue_mean_r"]),
        ("", "r of the final emotion", free["final_r"]),
        ("", "mean error of the final emotion", free["final_mae"]),
        ("free-running, per policy model", "Spearman", free["ranking"]["spearman"]),
        ("", "Spearman, interval over models", free["ranking"]["spearman_models"]),
        ("", "Kendall", free["ranking"]["kendall"]),
        ("", "Kendall, interval over models", free["ranking"]["kendall_models"]),
    ]
    said, recorded = free["final"]["said"], free["final"]["recorded"]
    ends = ", ".join(f"{name.replace('_', ' ')} {said[name]:.2f} (recorded {recorded[name]:.2f})" for name in said)
    table = plain_table(("setting", "figure", "value [95%]"), ((setting, name, _shown(figure)) for setting, name, figure in rows))
    return f"{table}\n\nFinal emotion: {ends}."


def _baselines(figures: dict[str, Any]) -> str:
    rows = (
        (name, *(_shown(of[figure]) for figure in ("r", "sign_accuracy", "dialogue_mean_r"))) for name, of in figures["baselines"].items()
    )
    return plain_table(("baseline", "r per turn", "sign accuracy", "r per dialogue"), rows)


def _groups(figures: dict[str, Any]) -> str:
    rows = (
        (name, of["r"]["n"], _shown(of["r"]), _shown(of["sign_accuracy"]))
        for group in ("by_need", "by_class", "by_policy")
        for name, of in figures[group].items()
    )
    return plain_table(("free-running, of", "turns", "r", "sign accuracy"), rows)


def _calibration(figures: dict[str, Any]) -> str:
    rows = ((f"{point['expected']:+.2f}", f"{point['recorded']:+.2f}", point["n"]) for point in figures["calibration"])
    return plain_table(("expected change", "recorded, on average", "turns"), rows)


def _shown(figure: dict[str, Any]) -> str:
    if figure["value"] is None:
        return "–"
    return f"{figure['value']:.3f}" + (f" {in_brackets(figure['ci95'], '.3f')}" if figure["ci95"] else "")
