"""Stage benchmark: general capability of one model -> metrics/<variant>/general.json.

Beside it: the score of every item for later pairing (general.items.jsonl), and lm-eval's own files (general.lm_eval/).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rlver.components.ability.backends import BenchmarkError, Served
from rlver.components.ability.general import run_tasks
from rlver.components.ability.noninferiority import layout_folder, write_general
from rlver.components.settings.settings import Settings, digest_of, load_settings
from rlver.tasks.runtime import connections
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
        benchmark.backend,
        _served(settings, args.model),
        layout_folder(args.out),
    )
    results["settings_digest"] = digest_of({"seed": settings.seed, "benchmark": benchmark.model_dump(mode="json")})
    write_general(args.out, results)
    return 0


def _served(settings: Settings, model: Path) -> Served | None:
    """The server of the parameters; None where the model is computed here. Raises NoServer, or BenchmarkError for what it cannot keep to."""
    if settings.benchmark.backend != "local-completions":
        return None
    name = settings.benchmark.served_model or str(model)
    connection = connections.to_policy(settings, [name], settings.benchmark.base_url)
    if connection.replay:
        raise BenchmarkError("a benchmark of a served model is not recorded, so it cannot be replayed: leave --replay out")
    if connection.parameters.budget is not None:
        raise BenchmarkError(
            "the calls of a benchmark are not counted, so the budget cannot be kept: set none, or another benchmark.backend"
        )
    return Served(name, connection.parameters, connection.server.key)


if __name__ == "__main__":
    sys.exit(run_stage(main))
