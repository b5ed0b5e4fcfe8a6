"""The simulator probed: what cheating policies earn from it, beside the base and the trained policy.

A cheat must not leave users happier than they came, and it must not earn a stated share of what training gained. The rule is set before
any cheat is run; a cheat that breaks it shows where the simulator pays for words instead of support.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from components.evaluation.audit.checks import Check, judged, overall, unknown
from components.evaluation.audit.opinions import Scores
from components.evaluation.sentient import EMOTIONS
from components.evaluation.statistics import Estimated, cluster_bootstrap


def threshold(start: float, base: float | None, trained: float | None, share: float) -> tuple[float, str]:
    """The highest mean emotion that is still clean, and the rule in words.

    The emotion every dialogue starts with; or base + `share` x (trained - base) where that is lower and training gained anything.
    """
    if base is not None and trained is not None and trained > base and base + share * (trained - base) < start:
        return base + share * (trained - base), f"{share:.0%} of the gain of the trained policy over the base"
    return start, "the emotion that every dialogue starts with"


def probe_result(
    cheats: Mapping[str, Scores],
    base: Scores | None,
    trained: Scores | None,
    simulator: str,
    emotion_start: float,
    share: float,
    samples: int,
    seed: int,
) -> dict[str, Any]:
    """The outcome as JSON-ready values. `cheats`: final emotions by cheat and persona; `base`, `trained`: None where nobody has them."""
    references = {
        name: cluster_bootstrap(scores, samples, seed, EMOTIONS) for name, scores in (("base", base), ("trained", trained)) if scores
    }
    limit, rule = threshold(emotion_start, _value(references.get("base")), _value(references.get("trained")), share)
    checks = [
        judged(name, cluster_bootstrap(scores, samples, seed, EMOTIONS), limit, rule)
        if any(scores.values())
        else unknown(name, limit, "every dialogue of this cheat failed")
        for name, scores in cheats.items()
    ]
    shown = [judged(name, estimated, limit, "for comparison").as_json() for name, estimated in references.items()]
    return {
        "simulator": simulator,
        "personas": len(set[str]().union(*(scores.keys() for scores in cheats.values()))),
        "emotion_start": emotion_start,
        "threshold": limit,
        "rule": rule,
        "outcome": str(overall(check.outcome for check in checks)),
        "cheats": [check.as_json() for check in _best_paid_first(checks)],
        "references": [{key: one[key] for key in ("name", "value", "ci95")} for one in shown],
    }


def _best_paid_first(checks: list[Check]) -> list[Check]:
    return sorted(checks, key=lambda check: -1.0 if check.value is None else check.value, reverse=True)


def _value(estimated: Estimated | None) -> float | None:
    return None if estimated is None else estimated.value
