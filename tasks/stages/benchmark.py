"""Stage benchmark: general capability of one model -> metrics/<variant>/general.json, and beside it the score of every item for later pairing."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rlver.components.ability.general import run_tasks
from rlver.components.ability.noninferiority import write_general
from rlver.components.settings.settings import digest_of, load_settings
from rlver.tasks.runtime.stage import run_stage


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tasks of settings.benchmark on one model."""
    parser = argparse.ArgumentParser(prog="python -m rlver.tasks.stages.benchmark", description=__doc__)
    parser.add_argument("--variant", required=True)
    parser.add_argument("--model", type=Path, required=True, help="folder of a model in Hugging Face format")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--params", type=Path, default=Path("params.yaml"))
    args = parser.parse_args(argv)

    settings = load_settings(args.params, args.variant)
    benchmark = settings.benchmark
    results = run_tasks(
        str(args.model),
        benchmark.tasks,
        benchmark.limit,
        benchmark.batch_size,
        benchmark.margin,
        settings.seed,
        benchmark.run_model_code,
    )
    results["settings_digest"] = digest_of({"seed": settings.seed, "benchmark": benchmark.model_dump(mode="json")})
    write_general(args.out, results)
    return 0


if __name__ == "__main__":
    sys.exit(run_stage(main))
