"""Stage paper_report: what is finished of the paper run -> index.html and results.md, with the name of whatever is missing."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rlver.components.domain.files import BadFile, read_yaml
from rlver.components.personas.schema import validate_file
from rlver.components.report.panels.panel import ReportRun
from rlver.components.settings.sections import TINY
from rlver.components.settings.settings import load_settings
from rlver.tasks.runtime.stage import run_stage
from rlver.tasks.studies.paper.material import PaperKind, PlannedPolicy, kind_of, load_paper_run, read_failures
from rlver.tasks.studies.paper.page import write_paper_report


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m rlver.tasks.stages.paper_report", description=__doc__)
    parser.add_argument("--runs", type=Path, required=True, help="the table of policies")
    parser.add_argument("--transcripts", type=Path, required=True, help="folder of <run>/<user>.jsonl")
    parser.add_argument("--metrics", type=Path, required=True, help="folder of <run>/<user>.json and <run>/general.json")
    parser.add_argument("--logs", type=Path, required=True, help="folder of failures.json")
    parser.add_argument("--personas", type=Path, required=True, help="the test personas, for their scenarios (JSONL)")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--params", type=Path, default=Path("params.yaml"))
    args = parser.parse_args(argv)

    settings = load_settings(args.params)
    runs = read_runs(args.runs, args.params)
    paper = load_paper_run(runs, args.transcripts, args.metrics, read_failures(args.logs / "failures.json"), validate_file(args.personas))
    model = settings.base.model if settings.base.kind != TINY else None
    write_paper_report(paper, ReportRun(settings.seed, settings.benchmark.margin, model), settings.evaluation.bootstrap_samples, args.out)
    for policy in paper.incomplete:
        print(f"{policy.run.name}: {policy.problem}")
    return 0


def read_runs(path: Path, params: Path) -> list[PlannedPolicy]:
    """The policies of the table, bases first, then by name, each with the kind that its parameters make it.

    Raises BadFile for a line that lacks something, for a policy of the root pipeline under a seed that is not that of params.yaml, and for two
    policies that the report could not tell apart.
    """
    table = read_yaml(path)
    runs = [_run(path, name, row, params) for name, row in (table.get("compared") or {}).items()]
    if not runs:
        raise BadFile(f"{path}: no policies under compared; name two or more there")
    own_seed = load_settings(params).seed
    for run in runs:
        if not run.is_base and run.name not in (table.get("trained") or {}) and run.seed != own_seed:
            raise BadFile(f"{path}: {run.name} was trained with seed {own_seed} of params.yaml, not {run.seed}: correct its seed and name")
    first: dict[tuple[PaperKind, int], PlannedPolicy] = {}
    variants: dict[PaperKind, str] = {}
    for run in runs:
        if (other := first.setdefault((run.kind, run.seed), run)) is not run:
            raise BadFile(
                f"{path}: {other.name} and {run.name} are both {run.kind}, seed {run.seed}: the report counts one of a kind and seed"
            )
        variant = str(table["compared"][run.name]["variant"])
        if (known := variants.setdefault(run.kind, variant)) != variant:
            raise BadFile(
                f"{path}: the variants {known} and {variant} are both {run.kind}, which the report would pool: give one a table of its own"
            )
    return sorted(runs, key=lambda run: (not run.is_base, run.name))


def _run(path: Path, name: str, row: Any, params: Path) -> PlannedPolicy:
    try:
        variant, seed, base, model = row["variant"], int(row["seed"]), row["base"], Path(row["model"])
    except (KeyError, TypeError, ValueError) as error:
        raise BadFile(f"{path}: {name} needs variant, seed, base and model ({error})") from error
    kind = kind_of(load_settings(params, variant), is_base=name == base)
    return PlannedPolicy(name, kind, seed, base, model.parent.parent / "logs" / model.name)


if __name__ == "__main__":
    sys.exit(run_stage(main))
