"""The fidelity card: how far an appraiser agrees with recorded users on dialogues that it did not learn from.

*Teacher-forced*: before each reply the recorded emotion is told. *Free-running*: it is not, and emotion and stops follow from the
appraiser's own changes. In both the user's words so far are given as recorded, and they react to the recorded emotion, as a user's do.

The fidelity card as people read it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlver.components.domain.emotion import FAILURE, SUCCESS, EmotionRules
from rlver.components.report.tables import plain_table
from rlver.components.scoring.intervals import json_ready
from rlver.components.settings.study_sections import DistilParameters
from rlver.components.users.distilled import features as columns
from rlver.components.users.distilled.features import CLASSES, NAMES, NEEDS
from rlver.tasks.runtime.brackets import in_brackets
from rlver.tasks.studies.distil import agreement
from rlver.tasks.studies.distil.agreement import PairedAppraisals, baselines
from rlver.tasks.studies.distil.examples import Examples, Fold, LearningMaterial, Numbers
from rlver.tasks.studies.distil.learn import learn, readings

_BINS = 10
_DECIMALS = 4


def fold_scored(material: LearningMaterial, fold: Fold, parameters: DistilParameters, seed: int) -> pd.DataFrame:
    """Predictions for the rows of a fold, by their number. `…_expected` has points, `…_change` values of the grid; the others are baselines."""
    if not fold.scored:
        raise ValueError(
            "no policy model that is held out talked with a persona that is held out, so nothing can be tested; "
            "record all models with the same personas"
        )
    examples = material.examples
    learned, rows = learn(material, examples.rows_of(fold.learned), parameters, seed), examples.rows_of(fold.scored)
    seen = readings(material, learned, rows)
    words = learned.by_words.predict(seen)
    told = learned.by_emotion.predict(np.column_stack([seen, examples.emotion[rows], examples.last_change[rows]]))
    predicted = {
        "words_expected": words,
        "words_change": learned.words_calibration.changes(words),
        "told_expected": told,
        "told_change": learned.emotion_calibration.changes(told),
        **baselines(examples, learned.rows, rows),
        "n-gram ridge": seen[:, columns.names(parameters.reasons).index("reply:change")],
    }
    return pd.DataFrame(predicted, index=rows)


def fidelity_of(material: LearningMaterial, parts: Sequence[pd.DataFrame], rules: EmotionRules, samples: int, seed: int) -> dict[str, Any]:
    """All figures of the predictions, no row of which is in two parts, as the card holds them."""
    predicted = pd.concat(parts).sort_index()
    rows = predicted.index.to_numpy()
    figures, examples = _Figures(material.examples, rows, samples, seed), material.examples
    of = {name: predicted[name].to_numpy(dtype=np.float64) for name in predicted}
    return {
        "dialogues": len(figures.first),
        "turns": len(rows),
        "teacher_forced": {"expected": figures.per_turn(of["told_expected"]), "change": figures.per_turn(of["told_change"])},
        "free_running": {
            "expected": figures.per_turn(of["words_expected"]),
            "change": figures.per_turn(of["words_change"]),
            **figures.per_dialogue(of["words_expected"]),
            **figures.finals(predicted["words_change"].to_numpy(), rules),
        },
        "baselines": {name: figures.per_turn(of[name]) | figures.per_dialogue(of[name]) for name in predicted.columns[4:]},
        "by_need": figures.by_group(of["words_expected"], [NEEDS[need] if need >= 0 else None for need in examples.need[rows].tolist()]),
        "by_class": figures.by_group(of["words_expected"], _classes(examples.measured[rows])),
        "by_policy": figures.by_group(of["words_expected"], [dialogue.policy for dialogue in figures.of_row]),
        "calibration": _table(of["words_expected"], figures.change),
    }


class _Figures:
    """Figures of predictions for the same rows, which belong to `of_row`; `first` are the first row of every dialogue."""

    def __init__(self, examples: Examples, rows: NDArray[np.int64], samples: int, seed: int) -> None:
        self.dialogue, self.turn, self.change = examples.dialogue[rows], examples.turn[rows], examples.change[rows]
        self.of_row = [examples.dialogues[number] for number in self.dialogue]
        self.first = np.flatnonzero(np.append(True, self.dialogue[1:] != self.dialogue[:-1]))
        self.persona = np.unique([dialogue.persona_id for dialogue in self.of_row], return_inverse=True)[1]
        self._samples, self._seed = samples, seed

    def per_turn(self, said: Numbers) -> dict[str, Any]:
        paired = PairedAppraisals(said, self.change, self.persona)
        return self._agreed(paired) | {"direction_agreement": self._figure(agreement.direction_agreement, paired, self.dialogue)}

    def by_group(self, said: Numbers, names: Sequence[str | None]) -> dict[str, Any]:
        of_row, every = np.array([str(name) for name in names]), PairedAppraisals(said, self.change, self.persona)
        of = {name: of_row == name for name in sorted(set(of_row.tolist())) if name != "None"}
        return {name: self._agreed(PairedAppraisals(*(column[kept] for column in every))) for name, kept in of.items()}

    def per_dialogue(self, said: Numbers) -> dict[str, Any]:
        mine, theirs = (np.array([part.mean() for part in np.split(values, self.first[1:])]) for values in (said, self.change))
        return {"dialogue_mean_r": self._figure(agreement.correlation, PairedAppraisals(mine, theirs, self.persona[self.first]))}

    def finals(self, changes: NDArray[np.int64], rules: EmotionRules) -> dict[str, Any]:
        """Of the final emotions, and of the policy models by them."""
        parts, dialogues = np.split(changes, self.first[1:]), [self.of_row[number] for number in self.first]
        final = np.array(
            [agreement.free_run(one, part.tolist(), rules) for one, part in zip(dialogues, parts, strict=True)], dtype=np.float64
        )
        last = self.turn[np.append(self.first[1:], len(changes)) - 1]
        recorded = np.array([one.turns[turn].emotion for one, turn in zip(dialogues, last, strict=True)], dtype=np.float64)
        paired = PairedAppraisals(final, recorded, self.persona[self.first])
        policy = np.unique([dialogue.policy for dialogue in dialogues], return_inverse=True)[1]

        def rates(values: Numbers) -> dict[str, float]:
            return {
                "mean": float(values.mean()),
                "success_rate": float(np.mean(values >= SUCCESS)),
                "failure_rate": float(np.mean(values < FAILURE)),
            }

        return {
            "final_r": self._figure(agreement.correlation, paired),
            "final_mae": self._figure(agreement.mean_error, paired),
            "final": {"said": rates(final), "recorded": rates(recorded)},
            "ranking": json_ready(agreement.ranking(paired, policy, self._samples, self._seed), _DECIMALS),
        }

    def _agreed(self, paired: PairedAppraisals) -> dict[str, Any]:
        return {"r": self._figure(agreement.correlation, paired), "sign_accuracy": self._figure(agreement.sign_accuracy, paired)}

    def _figure(self, measure: Callable[..., agreement.Agreed], *of: Any) -> dict[str, Any]:
        figure: dict[str, Any] = json_ready(measure(*of, self._samples, self._seed), _DECIMALS)
        return figure


def _classes(measured: Numbers) -> list[str | None]:
    """The persona class of every row, from its measures."""
    is_class = measured[:, [NAMES.index(f"class:{kind}") for kind in CLASSES]]
    return [CLASSES[int(one.argmax())] if one.any() else None for one in is_class]


def _table(expected: Numbers, change: Numbers) -> list[dict[str, float]]:
    order = np.argsort(expected, kind="stable")
    return [
        {"expected": float(expected[part].mean()), "recorded": float(change[part].mean()), "n": len(part)}
        for part in np.array_split(order, _BINS)
        if len(part)
    ]


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
