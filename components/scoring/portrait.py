"""The portrait of a policy: one JSON-ready dictionary from its transcripts. What cannot be known is null with a reason."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from rlver.components.domain.transcript import Dialogue
from rlver.components.rollout.transcripts import uncollected
from rlver.components.scoring.acts import NO_ACTS, STRATEGIES, Act, acts_of
from rlver.components.scoring.behaviour import behaviour, by_persona, known, mean, share, unknown
from rlver.components.scoring.capabilities import capabilities, cognition
from rlver.components.scoring.statistics import Interval, by_cluster, proportion

NO_CUES = "nobody knows which messages hint at the need: only the scripted user marks them"
_CHANGES = Interval(-10.0, 10.0)


def portrait(dialogues: Sequence[Dialogue], samples: int, seed: int) -> dict[str, Any]:
    """Capabilities, cognition, strategies (and acts), acceptance and behaviour of one policy; failed dialogues are left out.

    Every number stands as {value, ci95, n}, n being personas; intervals are 95%, bootstrapped over personas with `samples` and `seed`.
    """
    with uncollected():
        return _portrait([dialogue for dialogue in dialogues if dialogue.emotion_final is not None], samples, seed)


def _portrait(scorable: Sequence[Dialogue], samples: int, seed: int) -> dict[str, Any]:
    replies_of = by_cluster((dialogue.persona_id, acts_of(dialogue)) for dialogue in scorable)
    by_act = _changes_after(replies_of, sorted)
    by_strategy = _changes_after(replies_of, _strategies_of)
    replies = {persona: sum(map(len, held)) for persona, held in replies_of.items()}
    return {
        "capabilities": capabilities(replies_of, samples, seed),
        "cognition": cognition(replies_of, samples, seed),
        "strategies": {name: _used(by_strategy.get(name, {}), replies, samples, seed) for name in STRATEGIES},
        "acts": {name: _used(by_act[name], replies, samples, seed) for name in sorted(by_act)},
        "acceptance": {"strategy_acceptance": _acceptance(replies_of), "need_expression": _expression(scorable)},
        "behaviour": behaviour(scorable, samples, seed),
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


def _used(changes: Mapping[str, Sequence[float]], replies: Mapping[str, int], samples: int, seed: int) -> dict[str, Any]:
    """How often replies carry it, and how users feel after those that do: an association, shared by all acts of a reply."""
    carrying = {persona: len(changes.get(persona, ())) for persona in replies}
    after = sum(carrying.values())
    return {
        "replies": after,
        "frequency": share(
            {persona: [1.0] * carrying[persona] + [0.0] * (of - carrying[persona]) for persona, of in replies.items()}, NO_ACTS
        ),
        "contribution": mean(changes, _CHANGES, samples, seed, "no reply does it" if any(replies.values()) else NO_ACTS),
    }


def _acceptance(replies_of: Mapping[str, Sequence[Sequence[Act]]]) -> dict[str, Any]:
    """Share of the replies of one strategy alone, and without harm, after which the emotion rises."""
    accepted = {
        persona: [float(r.change > 0) for replies in held for r in replies if _is_of_one_strategy(r)]
        for persona, held in replies_of.items()
    }
    has_acts = any(any(held) for held in replies_of.values())
    return share(accepted, "no reply is of one strategy alone" if has_acts else NO_ACTS)


def _is_of_one_strategy(reply: Act) -> bool:
    return len(_strategies_of(reply.acts)) == 1 and not reply.harms


def _expression(dialogues: Sequence[Dialogue]) -> dict[str, Any]:
    """Share of the messages after the opener that carry a cue to the need."""
    cues = by_persona(dialogues, lambda d: [float(turn.cue) for turn in d.turns[1:] if turn.cue is not None])
    return known(proportion(cues)) if any(cues.values()) else unknown(NO_CUES)
