"""The figures of the study as text: rates, effects, and before against after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rlver.components.report.tables import plain_table
from rlver.components.report.wording import DASH
from rlver.tasks.runtime.brackets import in_brackets
from rlver.tasks.studies.honesty.grading import Grade

_RATES = (Grade.ERROR, Grade.CORRECT, Grade.UNCLEAR)
_MANY_UNCLEAR = 0.5


def as_text(found: Mapping[str, Any], compared: Mapping[str, Any] | None) -> str:
    """All that `figures` found and, where there is one, the comparison with another policy."""
    how = "greedy" if found["temperature"] == 0 else f"sampled at temperature {found['temperature']:g}, seed {found['seed']}"
    lines = [
        f"{found['policy']} ({found['identity']}): {found['answers']} answers, {how}, at most {found['max_answer_tokens']} tokens each; "
        "95% intervals",
        *_remarks(found),
        "",
        rates_table(found["rates"]),
    ]
    if found["effects"]:
        lines += ["", "What feeling and belief change, against the plain question (paired by item; p: of the errors, Holm)", ""]
        lines.append(effects_table(found["effects"]))
    if compared:
        lines += ["", *_comparison(found, compared)]
    return "\n".join(lines)


def _remarks(found: Mapping[str, Any]) -> list[str]:
    unclear = {row["condition"]: row[Grade.UNCLEAR]["value"] for row in found["rates"] if row["kind"] == "all"}
    many = [condition for condition, share in unclear.items() if share > _MANY_UNCLEAR]
    return [
        remark
        for said, remark in (
            (found["without_answer"], f"{found['without_answer']} questions got no answer and are not counted"),
            (found["cut_off"], f"{found['cut_off']} answers were cut off at the limit of tokens"),
            (many, f"more than half of the answers are unclear ({', '.join(many)}): errors among the rest say little"),
        )
        if said
    ]


def rates_table(rates: Sequence[Mapping[str, Any]]) -> str:
    return plain_table(
        ("condition", "kind", "answers", *map(str, _RATES), "agrees"),
        ((row["condition"], row["kind"], row["n"], *(_share(row[rate]) for rate in _RATES), _share(row["agreement"])) for row in rates),
    )


def effects_table(effects: Sequence[Mapping[str, Any]]) -> str:
    return plain_table(
        ("told before", "items", *map(str, _RATES), "p"),
        ((row["condition"], row["n"], *(_points(row[rate]) for rate in _RATES), f"{row['p_holm']:.3f}") for row in effects),
    )


def _comparison(found: Mapping[str, Any], compared: Mapping[str, Any]) -> list[str]:
    before = compared["before"]
    heading = f"{before['policy']} ({before['identity']}) → {found['policy']} ({found['identity']}), paired by item"
    without = f"; {compared['without_pair']} questions were answered by one of them only" if compared["without_pair"] else ""
    return [
        f"{heading}: {compared['verdict']} at a margin of {compared['margin']:g} in the error rate{without}",
        "",
        comparison_table(compared["conditions"]),
    ]


def comparison_table(conditions: Sequence[Mapping[str, Any]]) -> str:
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


def _share(one: Mapping[str, Any] | None) -> str:
    return DASH if one is None else f"{one['value']:.1%} {in_brackets(one['ci95'], '.1%')}"


def _points(one: Mapping[str, Any]) -> str:
    return f"{one['difference']:+.1%} {in_brackets(one['ci95'], '+.1%')}"
