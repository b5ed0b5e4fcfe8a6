"""The card of a registered policy: where it comes from, how it was measured, what it is not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from components.evaluation.promotion import Condition, table

_SHOWN = ("seed", "simulator.kind", "simulator.difficulty", "policy.thinking", "train.algorithm", "train.steps", "train.personas_per_step",
          "train.group_size", "train.learning_rate", "train.beta", "train.curriculum")  # fmt: skip


@dataclass(frozen=True)
class Facts:
    """What a card says of a policy. `data`: path and MD5 of what it was trained on; `sentient`: the contents of sentient.json."""

    variant: str
    base: str
    own_base: bool
    parameters: Mapping[str, str]
    data: Mapping[str, str]
    sentient: Mapping[str, Any]
    md5: str
    commit: str


def model_card(facts: Facts, found: Sequence[Condition]) -> str:
    """The card in Markdown."""
    licence = "Apache-2.0, as the project" if facts.own_base else f"that of {facts.base}, from which it was trained, and of its personas"
    shown = [name for name in _SHOWN if name in facts.parameters]
    return "\n".join(
        [
            f"# {facts.variant}",
            "",
            "A dialogue policy trained by reinforcement learning from verifiable emotion rewards (RLVER, arXiv 2507.03112).",
            "",
            f"- base: {facts.base}",
            f"- data: {', '.join(f'{path} (MD5 {md5})' for path, md5 in sorted(facts.data.items()))}",
            f"- parameters: {', '.join(f'{name} {facts.parameters[name]}' for name in shown)}",
            f"- code: commit {facts.commit}; model MD5 {facts.md5}",
            f"- licence: {licence}",
            "",
            "## Measured",
            "",
            *_measured(facts.sentient),
            "",
            "## Why it was promoted",
            "",
            table(found),
            "",
            "## What it is not",
            "",
            "A score is how a *simulated* user felt; intervals cover personas and sampling, not training runs. It was not tested for safety, and "
            "is no help in a crisis.",
            "",
        ]
    )


def _measured(sentient: Mapping[str, Any]) -> list[str]:
    paired = sentient.get("paired_to_base")
    rows = [
        f"- final emotion {sentient['emotion_mean']:.1f} {_ends(sentient['emotion_ci95'], '.1f')}, 95% interval, {sentient['n']} dialogues, "
        f"{sentient['failed_dialogues']} of them unscorable",
        f"- success {sentient['success_rate']:.0%} {_ends(sentient['success_ci95'], '.0%')}, "
        f"failure {sentient['failure_rate']:.0%} {_ends(sentient['failure_ci95'], '.0%')}",
    ]
    if paired:
        rows.append(f"- to the base, paired: {paired['difference']:+.1f} {_ends(paired['ci95'], '+.1f')}, {paired['personas']} personas")
    return rows


def _ends(ends: Sequence[float], form: str) -> str:
    return f"[{ends[0]:{form}}, {ends[1]:{form}}]"
