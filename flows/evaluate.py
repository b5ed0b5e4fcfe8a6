"""The flow `evaluate`: the Sentient-Benchmark of any model, on demand."""

from __future__ import annotations

import hashlib
import re
import sys
from pathlib import Path
from typing import Annotated, Literal

from prefect import State, flow, get_run_logger
from prefect.artifacts import create_markdown_artifact
from prefect.states import Completed, Failed
from pydantic import Field

from rlver.flows.slots import gpu_slot, prepare_slots
from rlver.tasks.commands import scores as score_commands
from rlver.tasks.runtime import environment, processes
from rlver.tasks.runtime.policies import OPENAI, VLLM

Difficulty = Literal["vanilla", "challenging"]
PERSONAS = Path("data/personas/test.jsonl")


@flow(name="evaluate", validate_parameters=True, persist_result=False)
def evaluate(
    policy: Annotated[str, Field(min_length=1)],
    difficulty: Difficulty = "vanilla",
    repeats: Annotated[int, Field(ge=1, le=20)] = 3,
    limit: Annotated[int | None, Field(ge=1)] = None,
) -> State[str]:
    """Hold the benchmark dialogues of a model with the test personas and score them.

    Args:
        policy: A model folder, `hf:NAME`, `vllm:URL` or `openai:MODEL`, as in `rlver converse`.
        difficulty: Of the users.
        repeats: Dialogues with each persona.
        limit: The first personas only.
    """
    root = environment.project_root()
    where = environment.prepare(root)
    told_apart = hashlib.sha256(repr((policy, difficulty, repeats, limit)).encode()).hexdigest()[:8]
    out = root / "transcripts" / "on-demand" / f"{re.sub(r'[^A-Za-z0-9.-]+', '-', policy).strip('-')}-{difficulty}-{told_apart}.jsonl"
    options = ["--policy", policy, "--difficulty", difficulty, "--repeats", str(repeats), *(["--limit", str(limit)] if limit else [])]
    said: list[str] = []

    def listen(line: str) -> None:
        said.append(line)
        get_run_logger().info("%s", line)

    command = [sys.executable, "-m", "rlver.flows.cli", "converse", *options, "-o", str(out)]
    gpus = 0 if policy.startswith((OPENAI, VLLM)) else prepare_slots(where.prefect_api_url)
    with gpu_slot("converse", gpus):
        status = processes.run(command, root, environment.for_child(), listen)
    if status:
        errors = [line for line in said if line.startswith("error: ")]
        return Failed(message=(errors or said or ["no reason given"])[-1].removeprefix("error: "))
    text = score_commands.score(
        out, None, root / PERSONAS if (root / PERSONAS).is_file() else None, out.with_suffix(".json"), root / "params.yaml"
    )
    create_markdown_artifact(f"```\n{text}\n```", key="evaluation", description=f"{policy} with {difficulty} users")
    return Completed(message=f"{policy}: {text.splitlines()[0]}; {out.relative_to(root)}")
