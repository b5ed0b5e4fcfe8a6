"""The fidelity card as people read it."""

from __future__ import annotations

from typing import Any


def markdown(card: dict[str, Any]) -> str:
    """The card of `rlver distil` or `rlver fidelity` as Markdown."""
    lines = [f"# Fidelity of {card['appraiser']}", "", card["how"], ""]
    for name, figures in card["splits"].items():
        lines += [
            f"## {name}",
            "",
            f"{figures['dialogues']} dialogues, {figures['turns']} judged replies. 95% intervals resample personas whole.",
            "",
        ]
        lines += [*_main(figures), "", *_baselines(figures), "", *_groups(figures), "", *_calibration(figures), ""]
    if card.get("learning_curve"):
        lines += [
            "## Learning curve",
            "",
            "| recordings | turns | r, free-running | r, teacher-forced | sign, teacher-forced |",
            "|---|---|---|---|---|",
        ]
        lines += [
            f"| {point['dialogues']} | {point['turns']} | {point['free_r']:.3f} | {point['told_r']:.3f} | {point['told_sign']:.3f} |"
            for point in card["learning_curve"]
        ]
    return "\n".join(lines).rstrip() + "\n"


def _main(figures: dict[str, Any]) -> list[str]:
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
        ("", "Kendall", free["ranking"]["kendall"]),
    ]
    said, recorded = free["final"]["said"], free["final"]["recorded"]
    ends = ", ".join(f"{name.replace('_', ' ')} {said[name]:.2f} (recorded {recorded[name]:.2f})" for name in said)
    return [
        "| setting | figure | value [95%] |",
        "|---|---|---|",
        *(f"| {a} | {b} | {_shown(c)} |" for a, b, c in rows),
        "",
        f"Final emotion: {ends}.",
    ]


def _baselines(figures: dict[str, Any]) -> list[str]:
    rows = [
        f"| {name} | {_shown(of['r'])} | {_shown(of['sign_accuracy'])} | {_shown(of['dialogue_mean_r'])} |"
        for name, of in figures["baselines"].items()
    ]
    return ["| baseline | r per turn | sign accuracy | r per dialogue |", "|---|---|---|---|", *rows]


def _groups(figures: dict[str, Any]) -> list[str]:
    rows = [
        f"| {name} | {of['r']['n']} | {_shown(of['r'])} | {_shown(of['sign_accuracy'])} |"
        for group in ("by_need", "by_class", "by_policy")
        for name, of in figures[group].items()
    ]
    return ["| free-running, of | turns | r | sign accuracy |", "|---|---|---|---|", *rows]


def _calibration(figures: dict[str, Any]) -> list[str]:
    rows = [f"| {point['expected']:+.2f} | {point['recorded']:+.2f} | {point['n']} |" for point in figures["calibration"]]
    return ["| expected change | recorded, on average | turns |", "|---|---|---|", *rows]


def _shown(figure: dict[str, Any]) -> str:
    if figure["value"] is None:
        return "–"
    interval = figure["ci95"]
    return f"{figure['value']:.3f}" + (f" [{interval[0]:.3f}, {interval[1]:.3f}]" if interval else "")
