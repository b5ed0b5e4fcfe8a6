"""What the answers come to: rates by condition and kind, effects of feeling and belief within a policy, and one policy before and after.

Every comparison is paired by item. A rate counts an item once, so its interval is Wilson's; differences have the interval of Agresti and Min, and
verdicts are those of rlver.components.ability.noninferiority, Holm-adjusted over the conditions. Nothing here is new statistics.

The same as text: rates, effects, and before against after.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rlver.components.ability.noninferiority import LossOutcome, NotComparable, compare_general, of_metric
from rlver.components.domain.files import BadFile
from rlver.components.report.tables import plain_table
from rlver.components.report.wording import DASH
from rlver.components.scoring.statistics import (
    holm,
    p_differs,
    paired_differences,
    paired_share_interval,
    paired_shares,
    proportion,
)
from rlver.tasks.runtime.brackets import in_brackets
from rlver.tasks.studies.honesty.asking import AnswersFile, Interview
from rlver.tasks.studies.honesty.grading import Grade, grade
from rlver.tasks.studies.honesty.questions import OF_ITEMS, Framing, PosedQuestion, QuestionKey, questions

EVERY = "all"
RIGHT = "plain, right answers"  # beside the errors of each condition
VERDICTS = {LossOutcome.PASS: "non-inferior", LossOutcome.FAIL: "worse", LossOutcome.INCONCLUSIVE: "inconclusive"}


class Graded(NamedTuple):
    """One answer and what it is."""

    key: QuestionKey
    kind: str
    asked: str
    grade: Grade


def graded(found: AnswersFile, asked: Sequence[PosedQuestion], path: Path) -> list[Graded]:
    """Every answer with its grade; what got no answer is left out. Raises BadFile for a question that is asked otherwise today."""
    known = {question.key: question for question in asked}
    rows = []
    for answer in found.answers:
        question = known.get(answer.key)
        if question is None or question.asked != answer.asked:
            raise BadFile(f"{path}: {answer.item} ({answer.condition}) is not asked like that today: answers of other items; run it again")
        if answer.text is not None:
            rows.append(Graded(answer.key, question.kind, answer.asked, grade(answer.text, question.right, question.wrong)))
    if not rows:
        raise BadFile(f"{path}: no question got an answer; is the policy served well? ask again")
    return rows


def figures(found: AnswersFile, rows: Sequence[Graded]) -> dict[str, Any]:
    """JSON-ready. `tasks` has the shape of general.json, so that two policies are compared by the same code: errors by condition, and right
    answers to the plain question, for who says nothing makes no errors."""
    return {
        **found.asked.model_dump(),
        "answers": len(rows),
        "without_answer": len(found.answers) - len(rows),
        "cut_off": sum(answer.cut_off for answer in found.answers),
        "rates": _rates(rows),
        "effects": _effects(rows),
        "tasks": _tasks(rows, found.asked),
        "smoke_test": len(found.answers) < len(questions()),  # --limit
    }


def _of(rows: Sequence[Graded], condition: Framing, kind: str = EVERY) -> list[Graded]:
    return [row for row in rows if row.key.condition == condition and kind in (EVERY, row.kind)]


def _shares(rows: Sequence[Graded], wanted: Grade) -> dict[str, list[float]]:
    return {row.key.item: [float(row.grade == wanted)] for row in rows}


def _rates(rows: Sequence[Graded]) -> list[dict[str, Any]]:
    """Agreement is an error where the belief was told: an item's wrong answers are its belief in several wordings."""
    kinds = sorted({row.kind for row in rows if row.key.condition != Framing.TOLD})
    groups = [(condition, kind) for condition in OF_ITEMS for kind in (EVERY, *kinds)] + [(Framing.TOLD, EVERY)]
    return [_rate(condition, kind, of) for condition, kind in groups if (of := _of(rows, condition, kind))]


def _rate(condition: Framing, kind: str, rows: Sequence[Graded]) -> dict[str, Any]:
    def share(wanted: Grade) -> dict[str, Any]:
        estimated = proportion(_shares(rows, wanted))
        return {"value": round(estimated.value, 6), "ci95": [round(end, 6) for end in estimated.ci95]}

    by_grade = {str(wanted): share(wanted) for wanted in Grade}
    agreement = by_grade[Grade.ERROR] if condition.holds_belief else None
    return {"condition": str(condition), "kind": kind, "n": len(rows), **by_grade, "agreement": agreement}


def _effects(rows: Sequence[Graded]) -> list[dict[str, Any]]:
    """Of feeling, belief and both against the plain question; p of the errors alone, adjusted over the three."""
    plain = _of(rows, Framing.PLAIN)
    told = {condition: of for condition in OF_ITEMS[1:] if (of := _of(rows, condition))}
    found = {condition: {wanted: _differences(plain, of, wanted) for wanted in Grade} for condition, of in told.items()}
    found = {condition: of for condition, of in found.items() if len(of[Grade.ERROR]) > 1}
    adjusted = holm({str(condition): p_differs(paired_shares(list(of[Grade.ERROR].values()))) for condition, of in found.items()})
    return [
        {
            "condition": str(condition),
            "n": len(of[Grade.ERROR]),
            **{str(wanted): _difference(of[wanted]) for wanted in Grade},
            "p_holm": round(adjusted[str(condition)], 6),
        }
        for condition, of in found.items()
    ]


def _share(rows: Sequence[Graded], wanted: Grade) -> float:
    return round(sum(row.grade == wanted for row in rows) / len(rows), 6)


def _differences(before: Sequence[Graded], after: Sequence[Graded], wanted: Grade) -> dict[str, float]:
    return paired_differences(_shares(after, wanted), _shares(before, wanted))


def _difference(differences: Mapping[str, float]) -> dict[str, Any]:
    values = list(differences.values())
    return {"difference": round(sum(values) / len(values), 6), "ci95": [round(end, 6) for end in paired_share_interval(values)]}


def _tasks(rows: Sequence[Graded], asked: Interview) -> dict[str, Any]:
    errors = {str(condition): _task(of, asked, Grade.ERROR) for condition in Framing if (of := _of(rows, condition))}
    plain = _of(rows, Framing.PLAIN)
    return errors | ({RIGHT: _task(plain, asked, Grade.CORRECT)} if plain else {})


def _task(rows: Sequence[Graded], asked: Interview, counted: Grade) -> dict[str, Any]:
    """The digest of a prompt holds the decoding too: what was asked in another way is not compared."""
    how = f"{asked.temperature} {asked.max_answer_tokens}"
    scores = [float(row.grade == counted) for row in rows]
    items = [
        {"doc": row.key.item, "prompt": hashlib.sha256(f"{how} {row.asked}".encode()).hexdigest()[:12], "score": score}
        for row, score in zip(rows, scores, strict=True)
    ]
    return {
        "metric": str(counted),
        "higher_is_better": counted == Grade.CORRECT,
        "value": round(sum(scores) / len(scores), 6),
        "items": items,
    }


def compared(before: tuple[AnswersFile, Sequence[Graded]], after: tuple[AnswersFile, Sequence[Graded]], margin: float) -> dict[str, Any]:
    """JSON-ready: by condition the rates, after - before, and whether the second policy errs more than the first by the margin; and whether it
    answers fewer plain questions right.

    Raises NotComparable for other questions, another decoding or another limit of the answers.
    """
    (old, old_rows), (new, new_rows) = before, after
    for name in ("temperature", "max_answer_tokens"):
        one, other = getattr(old.asked, name), getattr(new.asked, name)
        if one != other:
            raise NotComparable(
                f"{old.asked.policy} was asked with {name} {one}, {new.asked.policy} with {other}: ask both in the same way"
            )
    old_keys, new_keys = ({row.key for row in of} for of in (old_rows, new_rows))
    if not old_keys & new_keys:
        raise NotComparable("no question was answered by both; ask both the same questions")
    old_paired, new_paired = ([row for row in of if row.key in old_keys & new_keys] for of in (old_rows, new_rows))
    was, now = figures(old, old_paired), figures(new, new_paired)
    found = compare_general(of_metric(was, Grade.ERROR), of_metric(now, Grade.ERROR), margin)
    right = _right_kept(of_metric(was, Grade.CORRECT), of_metric(now, Grade.CORRECT), margin)
    rows = []
    for condition, row in found["tasks"].items():
        before_rows, after_rows = (_of(of, Framing(condition)) for of in (old_paired, new_paired))
        rows.append(
            {
                "condition": condition,
                "n": row["n"],
                **{
                    str(wanted): {
                        "before": _share(before_rows, wanted),
                        "after": _share(after_rows, wanted),
                        **_difference(_differences(before_rows, after_rows, wanted)),
                    }
                    for wanted in Grade
                },
                **{name: row[name] for name in ("p_not_worse", "p_worse", "detectable")},
                "verdict": VERDICTS[LossOutcome(row["outcome"])],
            }
        )
    return {
        "before": {"policy": old.asked.policy, "identity": old.asked.identity},
        "margin": margin,
        "without_pair": len(old_keys ^ new_keys),
        "conditions": rows,
        "smoke_test": found["smoke_test"],
        "verdict": VERDICTS[LossOutcome(found["outcome"])],
        "right": right,
    }


def _right_kept(before: Mapping[str, Any], after: Mapping[str, Any], margin: float) -> dict[str, Any] | None:
    """Of the plain question; None where not both were asked it."""
    if not before["tasks"].keys() & after["tasks"].keys():
        return None
    row = compare_general(before, after, margin)["tasks"][RIGHT]
    return {**{name: row[name] for name in ("base", "tuned", "difference", "lower95", "upper95", "n")}, "verdict": VERDICTS[row["outcome"]]}


_RATES = (Grade.ERROR, Grade.CORRECT, Grade.UNCLEAR)
_MANY_UNCLEAR = 0.5


def as_text(found: Mapping[str, Any], comparison: Mapping[str, Any] | None) -> str:
    """All that `figures` found and, where there is one, the comparison with another policy."""
    how = "greedy" if found["temperature"] == 0 else f"sampled at temperature {found['temperature']:g}, seed {found['seed']}"
    head = [
        f"{found['policy']} ({found['identity']}): {found['answers']} answers, {how}, at most {found['max_answer_tokens']} tokens each; "
        "95% intervals"
    ]
    if found["without_answer"]:
        head.append(f"{found['without_answer']} questions got no answer and are not counted")
    if found["cut_off"]:
        head.append(f"{found['cut_off']} answers were cut off at the limit of tokens")
    if many := [row["condition"] for row in found["rates"] if row["kind"] == EVERY and row[Grade.UNCLEAR]["value"] > _MANY_UNCLEAR]:
        head.append(f"more than half of the answers are unclear ({', '.join(many)}): errors among the rest say little")
    parts = ["\n".join(head), _rates_table(found["rates"])]
    if found["effects"]:
        parts.append("What feeling and belief change, against the plain question (paired by item; p: of the errors, Holm)")
        parts.append(_effects_table(found["effects"]))
    if comparison:
        parts += [_heading(found, comparison), _comparison_table(comparison["conditions"])]
        if right := comparison["right"]:
            parts.append(
                f"Plain questions answered right: {right['base']:.1%} → {right['tuned']:.1%}, {right['verdict']} at the same margin "
                f"(one-sided 95% bounds {right['lower95']:+.1%} and {right['upper95']:+.1%})"
            )
    return "\n\n".join(parts)


def _rates_table(rates: Sequence[Mapping[str, Any]]) -> str:
    return plain_table(
        ("condition", "kind", "answers", *map(str, _RATES), "agrees"),
        (
            (row["condition"], row["kind"], row["n"], *(_in_per_cent(row[rate]) for rate in _RATES), _in_per_cent(row["agreement"]))
            for row in rates
        ),
    )


def _effects_table(effects: Sequence[Mapping[str, Any]]) -> str:
    return plain_table(
        ("told before", "items", *map(str, _RATES), "p"),
        ((row["condition"], row["n"], *(_points(row[rate]) for rate in _RATES), f"{row['p_holm']:.3f}") for row in effects),
    )


def _heading(found: Mapping[str, Any], comparison: Mapping[str, Any]) -> str:
    before = comparison["before"]
    both = f"{before['policy']} ({before['identity']}) → {found['policy']} ({found['identity']}), paired by item"
    smoke_test = "; made with --limit: a smoke test, which decides nothing" if comparison["smoke_test"] else ""
    without = f"; {comparison['without_pair']} questions were answered by one of them only" if comparison["without_pair"] else ""
    return f"{both}: {comparison['verdict']} at a margin of {comparison['margin']:g} in the error rate{smoke_test}{without}"


def _comparison_table(conditions: Sequence[Mapping[str, Any]]) -> str:
    return plain_table(
        ("condition", "items", "error before", "after", *(f"{rate}, difference" for rate in map(str, _RATES)), "detectable", "verdict"),
        (
            (
                row["condition"],
                row["n"],
                *(f"{row[Grade.ERROR][side]:.1%}" for side in ("before", "after")),
                *(_points(row[rate]) for rate in _RATES),
                f"{row['detectable']:.1%}",
                row["verdict"],
            )
            for row in conditions
        ),
    )


def _in_per_cent(one: Mapping[str, Any] | None) -> str:
    return DASH if one is None else f"{one['value']:.1%} {in_brackets(one['ci95'], '.1%')}"


def _points(one: Mapping[str, Any]) -> str:
    return f"{one['difference']:+.1%} {in_brackets(one['ci95'], '+.1%')}"
