"""The dialogue acts that a supporter's reply may do, as a user who hears English and the labelled replies name them (docs/act-detector.md)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from rlver.components.domain.persona import PersonaKind
from rlver.components.domain.transcript import Dialogue, Evidence

ACTS = (
    "absolve", "invite_reflection", "weigh_sides", "deep_empathy", "invite_telling", "explain_other", "advise", "praise",
    "acknowledge", "comfort", "ask_fact", "self_disclose", "platitude", "dismiss", "lecture", "blame", "flattery",
)  # fmt: skip
SERVES_NEED = "serves_need"
SURE = 0.3  # the least probability of an act that counts as found (users/heard); docs/hearing.md says what it was chosen on, and what was seen before
_OF_A_KIND = re.compile(f"en-(?:{'|'.join(PersonaKind)})-")


def names_need(dialogue: Dialogue) -> bool:
    """Whether its appraisals say that a reply served the hidden need: not of a user of a kind, whom another rule serves (users/special).

    Nor of another package's appraiser that gives no reason in the whole dialogue.
    """
    by_kind = dialogue.simulator.kind.startswith(("special", "heard")) and _OF_A_KIND.match(dialogue.persona_id)
    is_ours = dialogue.simulator.kind.startswith(("scripted", "heard", "special"))
    gives_reasons = is_ours or any(turn.appraisal.evidence for turn in dialogue.turns if turn.appraisal is not None)
    return dialogue.simulator.names_acts and gives_reasons and not by_kind


def counts(reason: Evidence) -> bool:
    """Whether what it names was found: for sure, or likely enough where the appraiser weighs it."""
    return reason.probability is None or reason.probability >= SURE


def serves_need(evidence: Iterable[Evidence]) -> bool:
    return any(one.what == SERVES_NEED and counts(one) for one in evidence)


def right_acts(dialogue: Dialogue) -> list[tuple[int, float]]:
    """(turn number, 1 or 0: did the reply serve the need) of every appraised turn from the first cue on; none where nobody says what serves it."""
    hits, cued = list[tuple[int, float]](), False
    for number, turn in enumerate(dialogue.turns if names_need(dialogue) else ()):
        cued = cued or turn.cue is True
        if cued and turn.appraisal is not None:
            hits.append((number, float(serves_need(turn.appraisal.evidence))))
    return hits
