"""The portrait of a policy: one JSON-ready dictionary from its transcripts. What cannot be known is null with a reason."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from rlver.components.domain.transcript import Dialogue
from rlver.components.rollout.transcripts import uncollected
from rlver.components.scoring.acts import ALL, NO_ACTS, STRATEGIES, Act, acts_of
from rlver.components.scoring.behaviour import behaviour, by_persona, mean, share
from rlver.components.scoring.capabilities import capabilities, cognition
from rlver.components.scoring.statistics import Interval, by_cluster
from rlver.components.scoring.units import Sampling, Units

NO_CUES = "nobody knows which messages hint at the need: only scripted and talking users mark them"
_CHANGES = Interval(-10.0, 10.0)


def portrait(dialogues: Sequence[Dialogue], how: Sampling) -> dict[str, Any]:
    """Capabilities, cognition, strategies (and acts), acceptance and behaviour of one policy; failed dialogues are left out.

    Every number stands as {value, ci95, n}, n being the units of `how`, which 95% intervals are over.
    """
    with uncollected():
        return _portrait([dialogue for dialogue in dialogues if dialogue.emotion_final is not None], how)


def _portrait(scorable: Sequence[Dialogue], how: Sampling) -> dict[str, Any]:
    replies_of = by_cluster((dialogue.persona_id, acts_of(dialogue)) for dialogue in scorable)
    by_act = _changes_after(replies_of, sorted)
    by_strategy = _changes_after(replies_of, _strategies_of)
    replies = {persona: sum(map(len, held)) for persona, held in replies_of.items()}
    return {
        "capabilities": capabilities(replies_of, how),
        "cognition": cognition(replies_of, how),
        "strategies": {name: _used(by_strategy.get(name, {}), replies, how) for name in STRATEGIES},
        "acts": {name: _used(by_act.get(name, {}), replies, how) for name in sorted(ALL)} if any(replies.values()) else {},
        "acceptance": {"strategy_acceptance": _acceptance(replies_of, how.units), "need_expression": _expression(scorable, how.units)},
        "behaviour": behaviour(scorable, how),
    }


def _changes_after(
    replies_of: Mapping[str, Sequence[Sequence[Act]]], names_of: Callable[[frozenset[str]], Iterable[str]]
) -> dict[str, dict[str, list[float]]]:
    """By name of what a reply does: the changes of emotion after such replies, by persona."""
    replies = ((persona, reply) for persona, held in replies_of.items() for reply in chain.from_iterable(held))
    changes = by_cluster((name, (persona, float(reply.change))) for persona, reply in replies for name in names_of(reply.acts))
    return {name: by_cluster(found) for name, found in changes.items()}


def _strategies_of(acts: frozenset[str]) -> list[str]:
    return [name for name, carriers in STRATEGIES.items() if not carriers.isdisjoint(acts)]


def _used(changes: Mapping[str, Sequence[float]], replies: Mapping[str, int], how: Sampling) -> dict[str, Any]:
    """How often replies carry it, and how users feel after those that do: an association, shared by all acts of a reply."""
    carrying = {persona: len(changes.get(persona, ())) for persona in replies}
    after = sum(carrying.values())
    return {
        "replies": after,
        "frequency": share(
            {persona: [1.0] * carrying[persona] + [0.0] * (of - carrying[persona]) for persona, of in replies.items()}, NO_ACTS, how.units
        ),
        "contribution": mean(changes, _CHANGES, how, "no reply does it" if any(replies.values()) else NO_ACTS),
    }


def _acceptance(replies_of: Mapping[str, Sequence[Sequence[Act]]], units: Units) -> dict[str, Any]:
    """Share of the replies of one strategy alone, and without harm, after which the emotion rises."""
    accepted = {
        persona: [float(r.change > 0) for replies in held for r in replies if _is_of_one_strategy(r)]
        for persona, held in replies_of.items()
    }
    has_acts = any(any(held) for held in replies_of.values())
    return share(accepted, "no reply is of one strategy alone" if has_acts else NO_ACTS, units)


def _is_of_one_strategy(reply: Act) -> bool:
    return len(_strategies_of(reply.acts)) == 1 and not reply.harms


def _expression(dialogues: Sequence[Dialogue], units: Units) -> dict[str, Any]:
    """Share of the messages after the opener that carry a cue to the need."""
    cues = by_persona(dialogues, lambda d: [float(turn.cue) for turn in d.turns[1:] if turn.cue is not None])
    return share(cues, NO_CUES, units)
