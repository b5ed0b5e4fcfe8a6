"""Time of a GRPO step with vLLM as the policy's voice against the same step with the model itself:
`python -m benchmarks.vllm_rollouts [--model models/base] [--steps 3] [-- VLLM OPTIONS]`.

A step is everything: giving the weights, the dialogues, the update. Same weights, personas, user and group sizes, in turns, on the same
cores. Seconds depend on what else runs on the machine; processor seconds, of this process and all of the server's, much less.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median

import psutil

from benchmarks.train_step import ours
from rlver.components.domain.persona import Persona
from rlver.components.personas.generator import compose_personas
from rlver.components.personas.library import load_library
from rlver.components.policy.load import load_policy
from rlver.components.policy.weights import write_weights
from rlver.components.rollout.episode import Job, Rollout
from rlver.components.settings.settings import load_settings
from rlver.tasks.runtime.assembly import Conversation, conversation, over_http
from rlver.tasks.runtime.environment import project_root
from rlver.tasks.runtime.serving.server import Serving, serving


@dataclass
class Voice:
    """One of the two, and what its steps and rollouts took: (seconds, processor seconds)."""

    personas: dict[str, Persona]
    cpu: Callable[[], float]
    talk: Conversation | None = None
    steps: list[tuple[float, float]] = field(default_factory=list)
    rollouts: list[tuple[float, float]] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)

    def now(self) -> tuple[float, float]:
        return time.perf_counter(), self.cpu()

    def roll_out(self, persona_ids: Sequence[str], step: int) -> list[Rollout]:
        assert self.talk is not None
        began = self.now()
        held = self.talk.hold([Job(f"{step}/{number}", self.personas[name], step) for number, name in enumerate(persona_ids)])
        self.rollouts.append(_since(began, self.now()))
        self.tokens.append(sum(sum(rollout.is_policy_T) for rollout in held))
        return held


def _since(began: tuple[float, float], ended: tuple[float, float]) -> tuple[float, float]:
    return ended[0] - began[0], ended[1] - began[1]


def _cpu_s(server: psutil.Process) -> float:
    """Processor seconds of this process and of the server with all its children."""
    times = [process.cpu_times() for process in (server, *server.children(recursive=True))]
    return float(time.process_time() + sum(spent.user + spent.system for spent in times))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=Path("models/base"))
    parser.add_argument("--steps", type=int, default=3, help="of each; the first of each is left out")
    parser.add_argument("options", nargs="*", help="go to vLLM as they are")
    arguments = parser.parse_args()
    settings = load_settings(Path("params.yaml"), "grpo-think")
    personas = {p.persona_id: p for p in compose_personas(load_library(), train=100, test=8, seed=settings.seed)[0]}
    order = list(personas)[: settings.train.personas_per_step]
    what = Serving(str(arguments.model), settings.policy.max_context_tokens, settings.rollout.concurrency, arguments.options)
    began = time.perf_counter()
    with serving(project_root(), what) as server, tempfile.TemporaryDirectory() as folder:
        print(f"vLLM was ready after {time.perf_counter() - began:.0f} s", flush=True)
        process = psutil.Process(server.process.pid)
        voices = {name: Voice(personas, lambda: _cpu_s(process)) for name in ("transformers", "vLLM")}
        for number in range(arguments.steps):
            for name, voice in voices.items():
                model, tokenizer = load_policy(arguments.model)
                talk = conversation(settings, name, model, tokenizer, settings.rollout.concurrency)
                url = server.url if name == "vLLM" else None
                voice.talk = over_http(talk, settings, url, partial(write_weights, model, Path(folder) / "weights"))
                with contextlib.redirect_stdout(io.StringIO()):
                    trainer = ours(settings, model, tokenizer, order, voice, Path(folder), steps=1)
                    step_began = voice.now()
                    trainer.train()
                voice.steps.append(_since(step_began, voice.now()))
                (wall, cpu), (talking, _) = voice.steps[-1], voice.rollouts[-1]
                gap = trainer.state.log_history[0]["logprob_gap"]
                print(
                    f"{number + 1}/{arguments.steps} {name}: step {wall:.1f} s ({cpu:.1f} of processor), rollouts {talking:.1f} s, "
                    f"{voice.tokens[-1]} tokens, {gap:.1e} nats from the trainer",
                    flush=True,
                )
    for title in ("steps", "rollouts"):
        for unit, place in (("s", 0), ("processor s", 1)):
            took = [getattr(voice, title) for voice in voices.values()]
            ours_s, theirs_s = (median(pair[place] for pair in pairs[1:] or pairs) for pairs in took)
            print(
                f"{title}: transformers {ours_s:.2f} {unit}, vLLM {theirs_s:.2f} {unit}, ratio vLLM / transformers {theirs_s / ours_s:.2f}"
            )


if __name__ == "__main__":
    main()
