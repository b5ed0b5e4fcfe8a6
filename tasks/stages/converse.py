"""Stage `converse`: the Sentient-Benchmark dialogues of one policy, every persona once per repeat. Spends tokens, judges nothing."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rlver.components.domain.files import BadFile
from rlver.components.personas.schema import validate_file
from rlver.components.settings.settings import load_settings
from rlver.tasks.runtime.stage import run_stage, write_costs


def main(argv: Sequence[str] | None = None) -> int:
    from rlver.components.rollout.transcripts import summary
    from rlver.tasks.runtime.assembly import open_conversation
    from rlver.tasks.runtime.conversing import as_evaluated, fingerprint, hold_and_write, jobs_of
    from rlver.tasks.runtime.progress import DialogueProgress

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--variant", required=True)
    parser.add_argument("--personas", type=Path, required=True)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, help="in place of the one in params.yaml")
    parser.add_argument("--difficulty", help="of the user, in place of the one in params.yaml")
    arguments = parser.parse_args(argv)
    settings = as_evaluated(load_settings(Path("params.yaml"), arguments.variant, seed=arguments.seed, difficulty=arguments.difficulty))
    personas = validate_file(arguments.personas)
    if not arguments.model.is_dir():
        raise BadFile(f"{arguments.model}: no such model folder; train the variant first")
    jobs = jobs_of(personas, arguments.variant, settings.seed, settings.evaluation.repeats)
    with open_conversation(arguments.model, settings, arguments.variant, min(settings.evaluation.concurrency, len(jobs))) as talk:
        try:
            dialogues = hold_and_write(
                talk,
                jobs,
                arguments.out,
                fingerprint(settings, arguments.personas, str(arguments.model), arguments.model),
                settings.rollout.max_failure_rate,
                DialogueProgress(len(jobs), costs=talk.costs),
            )
        finally:
            write_costs(arguments.out, talk.connection)
    print(summary(dialogues))
    return 0


if __name__ == "__main__":
    sys.exit(run_stage(main))
