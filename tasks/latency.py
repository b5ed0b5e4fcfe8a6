"""What `rlver latency` does: a few dialogues one after another, so that no reply waits for another, and how long each reply took."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from components.evaluation.latency import TimedPolicy, latency
from components.files import write_json
from components.personas.schema import validate_file
from components.settings import load_settings
from tasks.conversing import as_evaluated, jobs_of
from tasks.dialogue_commands import with_simulator
from tasks.policies import candidate, is_served

_LINES = (
    ("seconds", "seconds a reply", 3),
    ("thought_seconds", "of which thinking", 3),
    ("tokens", "tokens a reply", 1),
    ("thought_tokens", "of which thinking", 1),
    ("seconds_per_token", "seconds a token", 4),
)


def measure_latency(policy: str, personas: Path, limit: int, variant: str | None, out: Path | None, params: Path) -> str:
    """The times of the replies to the first `limit` personas, as text; all figures go to `out` if it is given.

    The user is the scripted one, whose own time is not counted. One dialogue before warms the model up. Raises ValueError for a chat
    endpoint, whose stored answers would take no time.
    """
    if is_served(policy):
        raise ValueError(
            f"{policy}: a chat endpoint's answers are stored, and a stored answer takes no time; their times are in its ledger"
        )
    settings = as_evaluated(with_simulator(load_settings(params, variant), "scripted", None))
    people = validate_file(personas)[:limit]
    who = candidate(policy, settings, variant)
    jobs = jobs_of(people, who.name, settings.seed, 1)
    with who.opened(settings, concurrency=1) as talk:
        talk.hold(jobs[:1])
        timed = TimedPolicy(talk.policy, time.perf_counter)
        replace(talk, policy=timed).hold(jobs)
    persona_of = {job.dialogue_id: job.persona.persona_id for job in jobs}
    found = latency(timed.replies, persona_of, settings.evaluation.bootstrap_samples, settings.seed)
    if out:
        write_json(out, {"policy": who.name, **found})
    return "\n".join([f"{who.name}: {found['replies']} replies to {len(people)} personas, one at a time", *_lines(found)])


def _lines(found: Mapping[str, Any]) -> list[str]:
    return [f"{heading:<18} {_estimate(found[name], decimals)}" for name, heading, decimals in _LINES]


def _estimate(one: Mapping[str, Any], decimals: int) -> str:
    if one["value"] is None:
        return f"unknown: {one['reason']}"
    low, high = one["ci95"]
    return f"{one['value']:.{decimals}f}  [{low:.{decimals}f}, {high:.{decimals}f}]"
