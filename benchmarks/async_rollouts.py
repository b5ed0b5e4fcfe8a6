"""How near rollouts with a slow LLM user come to the fastest possible: `python -m benchmarks.async_rollouts [--concurrency 64] [--model DIR]`.

64 dialogues of 8 turns with a server in its own process whose answers take 0.2 to 2 s (log-normal around 0.6 s, drawn by the request). The
bound is what nobody can beat: the slowest dialogue's own waiting, or all waiting over the calls in flight where that is more. Beside it, from
the same latencies: all dialogues in lock-step, which wait at each call for the slowest of it, and one call after the other. The policy is
canned and costs nothing; with `--model` it is a real one, whose own time the bound leaves out. On a machine that others keep busy,
`--slow-motion 10` makes all latencies ten times as long: what is left over the bound is then the engine's, and not the machine's.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heapreplace
from itertools import zip_longest
from pathlib import Path
from typing import Any

from benchmarks.llm_server import counts, latency_s, running
from rlver.components.domain.emotion import EmotionRules
from rlver.components.domain.persona import Persona
from rlver.components.domain.protocols import Policy
from rlver.components.endpoint.chat import ChatAnswer, ChatEndpoint, ChatRequest
from rlver.components.endpoint.opening import open_endpoint
from rlver.components.endpoint.parameters import EndpointParameters
from rlver.components.personas.generator import compose_personas
from rlver.components.personas.library import load_library
from rlver.components.rollout.episode import Job, check_failed, run_episodes
from rlver.components.settings.settings import Settings, load_settings
from rlver.components.users.llm.kind import LLMUserSection, ModelSection
from rlver.components.users.llm.simulator import LLMSimulator
from rlver.tasks.runtime.text_policy import TextPolicy, plain

LEAST_S, MOST_S = 0.2, 2.0
USER = ModelSection(model="user-model", temperature=0.8, top_p=1.0, max_tokens=700)
PARAMETERS = LLMUserSection(appraiser=USER, speaker=USER, combined=False, max_repairs=2, max_quoted_characters=4000)


@dataclass
class Heard:
    """Passes on what one dialogue asks, and keeps how long the server lets it wait."""

    endpoint: ChatEndpoint
    waits_s: list[float] = field(default_factory=list)

    async def chat(self, request: ChatRequest) -> ChatAnswer:
        self.waits_s.append(latency_s(request.seed or 0, LEAST_S, MOST_S))
        return await self.endpoint.chat(request)


def parameters(settings: Settings, url: str, **changes: Any) -> EndpointParameters:
    numbers = settings.endpoint.model_dump() | {"prices": {}, "jitter_seed": settings.seed} | changes
    return EndpointParameters(base_url=url, key_variable="RLVER_USER_KEY", **numbers)


def policy(model: Path | None, settings: Settings, rows: int) -> Policy:
    if model is None:
        return TextPolicy("canned", lambda *job: lambda user: plain("That sounds hard. Tell me more about it."))
    from rlver.components.policy.load import load_policy
    from rlver.tasks.runtime.assembly import conversation

    loaded = conversation(settings, model.name, *load_policy(model), rows).policy
    loaded.start()
    return loaded


async def measure(
    people: Sequence[Persona], turns: int, concurrency: int, model: Path | None, slow_motion: float
) -> tuple[float, float, list[list[float]]]:
    """(wall seconds, own CPU seconds, waits of every dialogue)."""
    settings = load_settings(Path("params.yaml"), "base")
    supporter = policy(model, settings, len(people))
    with running("--latency", str(LEAST_S), str(MOST_S), "--slow-motion", str(slow_motion)) as url, tempfile.TemporaryDirectory() as folder:
        numbers = parameters(settings, url, concurrency=concurrency)
        async with open_endpoint(numbers, lambda: None, Path(folder) / "answers.db", replay=False) as endpoint:
            heard = [Heard(endpoint) for _ in people]
            jobs = [
                Job(f"d{place}", persona, settings.seed, LLMSimulator(one, "vanilla", PARAMETERS, settings.simulator.emotion_start))
                for place, (persona, one) in enumerate(zip(people, heard, strict=True))
            ]
            rules = EmotionRules(max_turns=turns)
            began_s, cpu_s = time.perf_counter(), time.process_time()
            rollouts = await run_episodes(jobs, jobs[0].simulator, supporter, rules, len(jobs))  # type: ignore[arg-type]
            wall_s, cpu_s = time.perf_counter() - began_s, time.process_time() - cpu_s
            check_failed([rollout.dialogue for rollout in rollouts], 0.0)
            assert all(len(rollout.dialogue.turns) == turns for rollout in rollouts)
            print(f"{counts(url)['calls']} calls, at most {counts(url)['most_connections']} connections; {endpoint.ledger.line()}")
    return wall_s, cpu_s, [[slow_motion * wait_s for wait_s in one.waits_s] for one in heard]


def _round_s(waits_s: Sequence[float], slots: int) -> float:
    """Until all of these calls have been answered, `slots` of them in flight at a time."""
    free_at_s = [0.0] * min(slots, len(waits_s))
    for wait_s in waits_s:
        heapreplace(free_at_s, free_at_s[0] + wait_s)
    return max(free_at_s)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dialogues", type=int, default=64)
    parser.add_argument("--turns", type=int, default=8)
    parser.add_argument("--concurrency", type=int, nargs="+", default=[64, 16], help="calls in flight")
    parser.add_argument("--slow-motion", type=float, default=1.0)
    parser.add_argument("--model", type=Path, help="a policy's folder, in place of the canned one")
    options = parser.parse_args()
    people = compose_personas(load_library(), 7, max(8, options.dialogues), 8)[0][: options.dialogues]
    for concurrency in options.concurrency:
        wall_s, cpu_s, waits = asyncio.run(measure(people, options.turns, concurrency, options.model, options.slow_motion))
        slowest_s, all_s = max(map(sum, waits)), sum(map(sum, waits))
        bound_s = max(slowest_s, all_s / concurrency)
        lock_step_s = sum(_round_s(together, concurrency) for together in zip_longest(*waits, fillvalue=0.0))
        print(
            f"{len(waits)} dialogues x {options.turns} turns, {concurrency} calls in flight, policy {options.model or 'canned'}, latencies x {options.slow_motion:g}: wall {wall_s:.1f} s"
            f" = {wall_s / bound_s:.2f} x the bound of {bound_s:.1f} s (slowest dialogue {slowest_s:.1f} s, all waiting / calls in flight"
            f" {all_s / concurrency:.1f} s); lock-step {lock_step_s:.1f} s = {lock_step_s / wall_s:.1f} x wall, one after the other {all_s:.0f} s;"
            f" CPU {cpu_s:.1f} s, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
        )


if __name__ == "__main__":
    main()
