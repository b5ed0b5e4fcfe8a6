"""The first lines of a report: what came out, what this run is, and what it is not."""

from __future__ import annotations

from typing import Any, NamedTuple

from components.evaluation.report import wording
from components.evaluation.report.loading import Material, Variant
from components.evaluation.report.panels.panel import Run


class Headline(NamedTuple):
    title: str
    sentence: str


def headline(material: Material) -> Headline:
    """The result in one title and one sentence; an interval that contains 0 is not called a gain or a loss."""
    base, tuned = material.base, material.featured
    scored = base.sentient if base is not None else None
    if tuned is None or tuned.sentient is None:
        if scored is None:
            return Headline("Dialogues with simulated users", "Nothing has been scored yet; the dialogues are below.")
        return Headline(f"The base policy scores {wording.number(scored['emotion_mean'])}", "No trained policy has been scored yet.")
    if base is None and len(material.variants) > 1:
        return _standings(material, tuned)
    mean = wording.number(tuned.sentient["emotion_mean"])
    paired = tuned.sentient.get("paired_to_base")
    if scored is None or not paired:
        return Headline(f"{tuned.name} scores {mean} of 100", "There is no scored base policy to compare it with.")
    low, high = paired["ci95"]
    difference = wording.number(abs(paired["difference"]))
    span = wording.signed_interval((low, high))
    if low > 0:
        verdict = f"That is {difference} points above the base policy with the same users (95% interval {span})."
    elif high < 0:
        verdict = f"That is {difference} points below the base policy with the same users (95% interval {span})."
    else:
        verdict = f"The data do not show a difference to the base policy (95% interval {span})."
    return Headline(
        f"From {wording.number(scored['emotion_mean'])} to {mean}",
        f"With {tuned.name}, users end a dialogue at an emotion of {mean} out of 100 on average. {verdict}",
    )


def _standings(material: Material, first: Variant) -> Headline:
    """Several policies without a base: who stands where, and nothing about differences that nobody tested."""
    scored = [(variant.sentient, variant.name) for variant in material.variants if variant.sentient is not None]
    scores, last = min(scored, key=lambda pair: pair[0]["emotion_mean"])
    assert first.sentient is not None

    def mean(of: Any) -> str:
        return f"{wording.number(of['emotion_mean'])} (95% interval {wording.interval(of['emotion_ci95'])})"

    sentence = f"{first.name} leaves its users at {mean(first.sentient)} of 100, the highest mean; {last} at {mean(scores)}, the lowest."
    return Headline(f"{len(material.variants)} policies, one scale", sentence)


def statement(run: Run) -> str:
    """What the reader must not take the numbers for."""
    if run.is_bare:
        return "Made from transcripts alone. Scores depend on the simulated user: compare them only with scores given by the same one."
    if run.model is not None:
        return f"The policies start from {run.model}. Scores depend on the simulated user: compare them only with scores given by the same one."
    return (
        "The tiny world is not a chatbot. Its policy is a model of a few million parameters, made from scratch in minutes; it knows a small "
        "scripted world and nothing else. It shows that the training works and in which shape. Published rows stand beside it for that "
        "shape only: they come from another model and another user."
    )


def facts(material: Material, run: Run) -> list[tuple[str, str]]:
    """Name and value of what identifies the run."""
    personas = {dialogue.persona_id for variant in material.variants for dialogue in variant.dialogues}
    dialogues = sum(len(variant.dialogues) for variant in material.variants)
    simulators = "; ".join(f"{tag.kind}, {tag.difficulty}, version {tag.version}" for tag in material.simulators)
    digests = sorted({str(v.sentient["settings_digest"]) for v in material.variants if v.sentient and v.sentient.get("settings_digest")})
    return [
        ("Variants", ", ".join(variant.name for variant in material.variants)),
        *([] if run.is_bare else [("Base model", run.model or "tiny policy, from scratch")]),
        ("Simulated user", simulators),
        ("Dialogues", f"{dialogues} with {len(personas)} users"),
        ("Seed of the bootstrap" if run.is_bare else "Seed", str(run.seed)),
        *([("Settings digest", ", ".join(digests) or wording.DASH)] if not run.is_bare else []),
    ]
