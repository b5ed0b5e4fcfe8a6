"""64 clients at once at `rlver env serve`: `python -m benchmarks.env_sessions [--sessions 64]`, where `rlver[openenv]` is installed.

Each client is OpenEnv's own, with a policy that takes 0.2 to 2 s for a reply (log-normal around 0.6 s, drawn by its seed). The server has a
process of its own; its peak memory is the kernel's figure, all libraries included. The time of a step is the whole round trip: client and
loopback are in it, so the server's share is less. First all talk to the end. Then a quarter of the clients is killed (kill -9) in the middle
of their dialogues and as many new ones come, while the others talk on. Exit status 1 when a bar is not held: every transcript is that of our
own loop to the byte, peak memory below 500 MiB, 95% of the steps below 50 ms, and all new clients get in.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import quantiles
from typing import Any

from openenv.core.generic_client import GenericEnvClient

from benchmarks.llm_server import latency_s
from rlver.components.domain.persona import Persona
from rlver.components.domain.thinking import Said, said_in
from rlver.components.personas.generator import compose_personas
from rlver.components.personas.library import load_library
from rlver.components.rollout.episode import Job, run_episode
from rlver.components.settings.settings import Settings, load_settings
from rlver.components.users.together import user_of
from rlver.tasks.commands.env import LOOPBACK
from rlver.tasks.runtime.servers import free_port
from rlver.tasks.runtime.text_policy import TextPolicy

REPOSITORY = Path(__file__).parents[1]
LEAST_S, MOST_S = 0.2, 2.0
MOST_MIB, MOST_STEP_MS = 500, 50
PATIENCE_S = 10.0  # of a new client that finds no room
REPLIES = (
    "That sounds heavy. What hurts most about it?",
    "<think>They want to be seen.</think>You tried so hard, and nobody noticed.",
    "Just calm down, others have it worse.",
    "What would help you tonight?",
    "",
    "I am here, and I am listening.",
)


def message(seed: int, turn: int) -> str:
    """What the policy of a seed says at a turn (from 0)."""
    return Random(f"{seed}/{turn}").choice(REPLIES)


def canned(dialogue_id: str, seed: int, language: str) -> Callable[[str], Said]:
    """The same replies for our own loop."""
    turns = itertools.count()
    return lambda user: said_in(message(seed, next(turns)), thinking=False)


async def alone(settings: Settings, persona: Persona, seed: int) -> str:
    """The transcript of our own loop, as JSON."""
    simulator, job = user_of(settings.simulator), Job("alone", persona, seed)
    held = await run_episode(job, simulator.session(persona, seed), simulator.tag, TextPolicy("canned", canned), settings.simulator.rules)
    turns = [[turn.user, turn.emotion, turn.appraisal and turn.appraisal.model_dump(mode="json")] for turn in held.dialogue.turns]
    return json.dumps([turns, held.dialogue.hidden_need, str(held.dialogue.stop_reason), held.well_formed])


@dataclass(frozen=True)
class Talk:
    """A dialogue over the wire: its transcript as `alone` gives it, and the round trips of its steps."""

    transcript: str
    reset_ms: float
    steps_ms: list[float]


async def talk(client: GenericEnvClient, persona: Persona, seed: int) -> Talk:
    """One dialogue to its end, with a policy that takes its time."""
    began = time.perf_counter()
    seen, steps_ms, turns = await client.reset(seed=seed, persona_id=persona.persona_id), list[float](), list[Any]()
    reset_ms = 1000 * (time.perf_counter() - began)
    while not seen.done:
        await asyncio.sleep(latency_s(1000 * seed + len(turns), LEAST_S, MOST_S))
        heard, began = seen.observation["user"], time.perf_counter()
        seen = await client.step({"message": message(seed, len(turns))})
        steps_ms.append(1000 * (time.perf_counter() - began))
        told = seen.observation["metadata"]
        turns.append([heard, told["emotion"]])
    turns = [[*turn, appraisal] for turn, appraisal in zip(turns, told["appraisals"], strict=True)]
    return Talk(json.dumps([turns, told["hidden_need"], told["stop_reason"], told["well_formed"]]), reset_ms, steps_ms)


async def connected(url: str, persona: Persona, seed: int) -> Talk:
    async with GenericEnvClient(base_url=url) as client:
        return await talk(client, persona, seed)


async def newcomer(url: str, persona: Persona, seed: int) -> tuple[Talk, float]:
    """A client that comes until there is room for it, and how long it waited."""
    began = time.perf_counter()
    while True:
        async with GenericEnvClient(base_url=url) as client:
            try:
                await client.reset()
            except RuntimeError as refused:
                if "CAPACITY" not in str(refused) or time.perf_counter() - began > PATIENCE_S:
                    raise
            else:
                waited_s = time.perf_counter() - began
                return await talk(client, persona, seed), waited_s
        await asyncio.sleep(0.05)


async def doomed(url: str, count: int) -> None:
    """Clients in the middle of a dialogue, until their process is killed."""
    clients = [GenericEnvClient(base_url=url) for _ in range(count)]
    for seed, client in enumerate(clients):
        await client.connect()
        await client.reset(seed=seed)
        await client.step({"message": message(seed, 0)})
    print("in", flush=True)
    await asyncio.sleep(3600)


async def with_killed(url: str, chosen: Sequence[Persona]) -> tuple[list[Talk], list[float]]:
    """The last quarter of the clients is killed; new ones come in its place and hold the same dialogues."""
    killed = max(1, len(chosen) // 4)
    command = (sys.executable, "-m", "benchmarks.env_sessions", "--doomed", url, "--sessions", str(killed))
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        try:
            if child.stdout.readline() != "in\n":
                raise RuntimeError("not all clients that are to be killed got in")
            staying = [asyncio.create_task(connected(url, persona, seed)) for seed, persona in enumerate(chosen[:-killed])]
            await asyncio.sleep(1)
            try:
                await connected(url, chosen[0], 0)
            except RuntimeError as refused:
                print(f"one client more than there is room for: {refused}")
            else:
                raise RuntimeError("there is room for more clients than were allowed")
        finally:
            child.kill()
        new = [newcomer(url, chosen[seed], seed) for seed in range(len(chosen) - killed, len(chosen))]
        came = await asyncio.gather(*new)
    return [*await asyncio.gather(*staying), *(one for one, _ in came)], [waited_s for _, waited_s in came]


async def measure(url: str, chosen: Sequence[Persona], expected: Sequence[str]) -> bool:
    """Print what was found; whether every bar of the clients is held."""
    began = time.perf_counter()
    all_at_once = await asyncio.gather(*(connected(url, persona, seed) for seed, persona in enumerate(chosen)))
    wall_s = time.perf_counter() - began
    after_kill, waited_s = await with_killed(url, chosen)
    differing = [sum(one.transcript != own for one, own in zip(talks, expected, strict=True)) for talks in (all_at_once, after_kill)]
    steps_ms = [step_ms for one in (*all_at_once, *after_kill) for step_ms in one.steps_ms]
    cuts = quantiles(steps_ms, n=20)
    print(
        f"{len(chosen)} sessions at once, {sum(len(one.steps_ms) for one in all_at_once)} steps in {wall_s:.1f} s:"
        f" {differing[0]} transcripts differ from our own loop's; after the kill {differing[1]} of {len(after_kill)}"
    )
    print(
        f"{len(steps_ms)} steps: round trip p50 {cuts[9]:.1f} ms, p95 {cuts[18]:.1f} ms, most {max(steps_ms):.0f} ms;"
        f" all {len(chosen)} resets at once: most {max(one.reset_ms for one in all_at_once):.0f} ms;"
        f" load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    )
    print(f"{len(waited_s)} clients killed; {len(waited_s)} new ones were in after {max(waited_s):.2f} s at most")
    return not any(differing) and cuts[18] < MOST_STEP_MS


def serve(folder: Path, port: int, count: int) -> subprocess.Popen[bytes]:
    """A server in a project of its own, once it answers."""
    for name in ("params.yaml", "dvc.yaml"):
        shutil.copy(REPOSITORY / name, folder / name)
    command = (sys.executable, "-m", "rlver.flows.cli", "env", "serve", "--port", str(port), "--sessions", str(count))
    server = subprocess.Popen(command, cwd=folder, env={**os.environ, "PYTHONPATH": str(REPOSITORY)}, stdout=subprocess.DEVNULL)
    for _ in range(600):
        try:
            urllib.request.urlopen(f"http://{LOOPBACK[0]}:{port}/health", timeout=1).close()
            return server
        except OSError:
            if server.poll() is not None:
                raise RuntimeError("the server did not start") from None
            time.sleep(0.1)
    server.kill()
    raise RuntimeError("the server does not answer")


def highest_mib(pid: int) -> float:
    """The most memory that a process has had. (What wait4 says of a child is no less than its parent had when it began.)"""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=64)
    parser.add_argument("--doomed", metavar="URL", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.doomed:
        asyncio.run(doomed(options.doomed, options.sessions))
        return 0
    settings = load_settings(REPOSITORY / "params.yaml")
    chosen = compose_personas(load_library(), settings.seed, settings.personas.train, settings.personas.test)[0][: options.sessions]
    expected = [asyncio.run(alone(settings, persona, seed)) for seed, persona in enumerate(chosen)]
    if len({options.sessions, len(chosen), len(set(expected))}) > 1:
        raise ValueError(f"{len(chosen)} personas and {len(set(expected))} different transcripts for {options.sessions} sessions")
    with tempfile.TemporaryDirectory() as folder:
        port = free_port()
        server = serve(Path(folder), port, len(chosen))
        try:
            held = asyncio.run(measure(f"http://{LOOPBACK[0]}:{port}", chosen, expected))
            peak_mib = highest_mib(server.pid)
        finally:
            server.terminate()
            server.wait()
    print(f"the server's peak memory: {peak_mib:.0f} MiB")
    return int(not held or peak_mib >= MOST_MIB)


if __name__ == "__main__":
    sys.exit(main())
