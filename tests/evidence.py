"""Evidence of made-up policies: dialogues with a given final emotion, and a benchmark of right and wrong items."""

from __future__ import annotations

from typing import Any

from rlver.components.domain.transcript import Appraisal, Dialogue, SimulatorTag, StopReason, Turn
from rlver.tasks.tracking.promotion import PromotionEvidence

SIMULATOR = SimulatorTag(kind="scripted", difficulty="vanilla", version="1")


def dialogues(policy: str, gains: list[int]) -> list[Dialogue]:
    """One dialogue of one turn for each gain (-10..10) over an emotion of 40."""
    return [
        Dialogue(
            dialogue_id=f"{policy}/{number}",
            persona_id=f"p{number}",
            policy=policy,
            seed=1,
            simulator=SIMULATOR,
            emotion_start=40,
            emotion_final=40 + gain,
            stop_reason=StopReason.TURN_LIMIT,
            turns=(
                Turn(
                    user="u",
                    assistant="r",
                    emotion=40 + gain,
                    appraisal=Appraisal(content="c", target="t", activity="a", feeling="f", change=gain),
                ),
            ),
        )
        for number, gain in enumerate(gains)
    ]


def general(right: int, of: int = 200) -> dict[str, Any]:
    """general.json of one task of which the first `right` items are right; every tenth item is of one relation."""
    items = [{"doc": str(number), "prompt": "q", "score": float(number < right), "cluster": f"r{number % 10}"} for number in range(of)]
    task = {"metric": "acc", "higher_is_better": True, "value": right / of, "chance": 0.25, "items": items}
    return {"tasks": {"facts": task}, "smoke_test": False}


CLEAN = {"outcome": "clean", "checks": [{"name": "stock phrases", "outcome": "clean"}]}
ALARMED = {
    "outcome": "alarm",
    "checks": [
        {"name": "stock phrases", "outcome": "alarm"},
        {"name": "copying", "outcome": "clean"},
        {"name": "reward_overoptimization", "outcome": "unknown"},
    ],
}


def evidence(name: str, gains: list[int], right: int = 100, audit: dict[str, Any] | None = CLEAN) -> PromotionEvidence:
    return PromotionEvidence(name, f"{name}.dir", dialogues(name, gains), general(right), audit)
