"""The flow `evaluate`: the Sentient-Benchmark of any model, on demand."""

from __future__ import annotations

import hashlib
import io
import re
from typing import Annotated, Literal

from prefect import State, flow, get_run_logger
from prefect.artifacts import create_markdown_artifact
from prefect.states import Completed, Failed
from pydantic import Field

from rlver.flows.slots import gpu_slot, prepare_slots
from rlver.tasks.commands import dialogues, scores
from rlver.tasks.runtime import environment
from rlver.tasks.runtime.options import PARAMS, TEST_PERSONAS
from rlver.tasks.runtime.policies import OPENAI, VLLM
from rlver.tasks.runtime.progress import shown_on

Difficulty = Literal["vanilla", "challenging"]
EVALUATIONS = "evaluations"  # not below transcripts/, of which the report is made: it would be out of date


@flow(name="evaluate", validate_parameters=True, persist_result=False, log_prints=True)
def evaluate(
    policy: Annotated[str, Field(min_length=1)],
    difficulty: Difficulty = "vanilla",
    repeats: Annotated[int, Field(ge=1, le=20)] = 3,
    limit: Annotated[int | None, Field(ge=1)] = None,
    variant: str | None = None,
) -> State[str]:
    """Hold the benchmark dialogues of a model with the test personas and score them.

    Args:
        policy: A model folder, `hf:NAME`, `vllm:URL` or `openai:MODEL`, as in `rlver converse`.
        difficulty: Of the users.
        repeats: Dialogues with each persona.
        limit: The first personas only.
        variant: Overlay of params/ with the settings it is spoken to with, as of the variant that it was trained as.
    """
    root, where = environment.opened()
    told_apart = hashlib.sha256(repr((policy, difficulty, repeats, limit, *([variant] if variant else ()))).encode()).hexdigest()[:8]
    out = root / EVALUATIONS / f"{re.sub(r'[^A-Za-z0-9.-]+', '-', policy).strip('-')}-{difficulty}-{told_apart}.jsonl"
    personas, params = root / TEST_PERSONAS, root / PARAMS
    gpus = 0 if policy.startswith((OPENAI, VLLM)) else prepare_slots(where.prefect_api_url)
    try:
        with gpu_slot("converse", gpus), shown_on(_Logged()):
            dialogues.converse(policy, out, personas, difficulty=difficulty, limit=limit, repeats=repeats, variant=variant, params=params)
        text = scores.score(out, personas=personas, out=out.with_suffix(".json"), params=params)
    except (ValueError, OSError, RuntimeError) as error:
        return Failed(message=str(error))
    create_markdown_artifact(f"```\n{text}\n```", key="evaluation", description=f"{policy} with {difficulty} users")
    return Completed(message=f"{policy}: {text.splitlines()[0]}; {out.relative_to(root)}")


class _Logged(io.StringIO):
    """A stream whose lines go to the run's log."""

    def __init__(self) -> None:
        super().__init__()
        self._logger = get_run_logger()

    def write(self, text: str) -> int:
        for line in text.splitlines():
            if line.strip():
                self._logger.info("%s", line.rstrip())
        return len(text)
