"""Strategies: which dialogue acts a policy uses, and how users feel after them (SAGE paper, table 5; contribution as in its appendix C).

Acts are those the appraiser saw: evidence of the step "content". A reply may perform several, so frequencies do not add up to 1, and
a contribution is an association, not an effect: it is shared by all acts of the reply.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from components.dialogue.transcript import Dialogue
from components.evaluation.statistics import Estimated, Interval, cluster_bootstrap, proportion

_CHANGES = Interval(-10.0, 10.0)

# The five strategies of the RLVER paper (table 4) and the acts that carry them out here. To absolve is to affirm what somebody did; a
# story of one's own counts as empathy there. Surface sympathy, comfort and questions of fact belong to no strategy.
STRATEGIES: dict[str, frozenset[str]] = {
    "praise": frozenset({"praise", "absolve"}),
    "deep empathy": frozenset({"deep_empathy", "self_disclose"}),
    "emotional venting": frozenset({"invite_telling"}),
    "advice": frozenset({"advise"}),
    "problem analysis": frozenset({"weigh_sides", "explain_other", "invite_reflection"}),
}


@dataclass(frozen=True)
class Strategy:
    """One act: `frequency` is the share of appraised replies with it, `contribution` the mean change of emotion after them."""

    act: str
    replies: int
    frequency: Estimated
    contribution: Estimated


def strategies(dialogues: Iterable[Dialogue], bootstrap_samples: int, seed: int) -> list[Strategy]:
    """All acts seen, most frequent first; intervals are clustered by persona. Empty without an appraised reply."""
    appraised = _appraised(dialogues)
    rows = []
    for act in sorted({act for _, acts, _ in appraised for act in acts}):
        used: dict[str, list[float]] = {}
        changes: dict[str, list[float]] = {}
        for persona, acts, change in appraised:
            used.setdefault(persona, []).append(float(act in acts))
            if act in acts:
                changes.setdefault(persona, []).append(float(change))
        rows.append(
            Strategy(
                act=act,
                replies=sum(len(values) for values in changes.values()),
                frequency=proportion(used),
                contribution=cluster_bootstrap(changes, bootstrap_samples, seed, _CHANGES),
            )
        )
    return sorted(rows, key=lambda row: (-row.replies, row.act))


def frequencies(dialogues: Iterable[Dialogue]) -> dict[str, float]:
    """The share of appraised replies with each act, by name of the act; empty without an appraised reply."""
    replies = [acts for _, acts, _ in _appraised(dialogues)]
    return {act: sum(act in acts for acts in replies) / len(replies) for act in sorted(set().union(*replies))}


def _appraised(dialogues: Iterable[Dialogue]) -> list[tuple[str, set[str], int]]:
    """Persona, acts and change of emotion of every appraised reply."""
    return [
        (dialogue.persona_id, {e.what for e in turn.appraisal.evidence if e.step == "content"}, turn.appraisal.change)
        for dialogue in dialogues
        for turn in dialogue.turns
        if turn.appraisal is not None
    ]
