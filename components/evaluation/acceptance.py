"""How demanding a user is: strategy acceptance and need expression, the two figures by which the RLVER paper tells its users apart.

Strategy acceptance (RLVER paper, appendix D): of the replies that one strategy dominates, the share after which the emotion rises.
Every version of the user hears the *same* replies in the same contexts. Need expression is here no more than the estimate that a
program can make: the share of messages that carry a cue to the hidden need. The paper lets a model grade the messages instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from components.dialogue.transcript import Dialogue
from components.evaluation.reappraisal import appraisals_of, listener_of
from components.evaluation.statistics import Estimated, proportion
from components.evaluation.strategies import STRATEGIES
from components.personas.persona import Persona
from components.simulator.scripted.effects import HARM
from components.simulator.scripted.reading import read_reply


@dataclass(frozen=True)
class Published:
    """What the RLVER paper reports of one version of its user; shares in 0..1."""

    acceptance: float
    expression: float


PUBLISHED = {"vanilla": Published(0.524, 0.786), "challenging": Published(0.331, 0.636)}  # appendix D


def dominating_strategy(reply: str) -> str | None:
    """The one strategy of `reply`; None when it has none or several, or when it also hurts. Politeness may go with it."""
    acts = read_reply(reply).acts
    used = [strategy for strategy, carriers in STRATEGIES.items() if acts & carriers]
    return used[0] if len(used) == 1 and not acts & HARM.keys() else None


def strategy_acceptance(dialogues: Iterable[Dialogue], personas: Mapping[str, Persona], difficulty: str) -> Estimated:
    """Share of the dominated replies that a user of `difficulty` takes kindly; the interval is clustered by persona.

    Raises ValueError when no reply is dominated by one strategy.
    """
    changes = []
    for dialogue in dialogues:
        listener = listener_of(dialogue.hidden_need, personas.get(dialogue.persona_id))
        appraisals = appraisals_of(listener, difficulty, dialogue.turns)
        changes += [(dialogue.persona_id, appraisals[number].change) for number in dominated_turns(dialogue)]
    return acceptance(changes)


def dominated_turns(dialogue: Dialogue) -> list[int]:
    """The turns, from 0, whose reply one strategy dominates."""
    return [number for number, turn in enumerate(dialogue.turns) if dominating_strategy(turn.assistant)]


def acceptance(changes: Iterable[tuple[str, int]]) -> Estimated:
    """Share of (persona_id, change) in which the emotion rises. Raises ValueError when there are none."""
    accepted: dict[str, list[float]] = {}
    for persona_id, change in changes:
        accepted.setdefault(persona_id, []).append(float(change > 0))
    if not accepted:
        raise ValueError("no reply is dominated by one strategy, so there is no acceptance to measure")
    return proportion(accepted)


def need_expression(dialogues: Iterable[Dialogue]) -> Estimated:
    """Share of the messages after the opener that carry a cue to the need; the interval is clustered by persona.

    Raises ValueError when nobody said anything after the opener.
    """
    cues: dict[str, list[float]] = {}
    for dialogue in dialogues:
        cues.setdefault(dialogue.persona_id, []).extend(float(turn.cue is True) for turn in dialogue.turns[1:])
    if not any(cues.values()):
        raise ValueError("every dialogue ended after its first reply, so there is no expression to measure")
    return proportion(cues)
