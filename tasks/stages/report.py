"""Stage report: transcripts, metrics and logs of all variants -> reports/: index.html, results.md, results.csv, audit.json, plots/."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from components.evaluation.audit.summary import overview
from components.evaluation.report.loading import load_material
from components.evaluation.report.render import Run, write_report
from components.files import write_json, write_text_atomically
from components.settings import load_settings
from tasks.audited import Audited, audit_one, training_of
from tasks.stages import run_stage


def main(argv: Sequence[str] | None = None) -> int:
    """Make the report of whatever variants have transcripts."""
    parser = argparse.ArgumentParser(prog="python -m tasks.stages.report", description=__doc__)
    parser.add_argument("--transcripts", type=Path, required=True, help="folder of <variant>.jsonl")
    parser.add_argument("--metrics", type=Path, required=True, help="folder of <variant>/sentient.json and <variant>/general.json")
    parser.add_argument("--logs", type=Path, required=True, help="folder of <variant>/train.csv and <variant>/evaluation.csv")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--params", type=Path, default=Path("params.yaml"))
    args = parser.parse_args(argv)

    settings = load_settings(args.params)
    model = settings.base.model if settings.base.kind == "model" else None
    material = load_material(args.transcripts, args.metrics, args.logs)
    write_report(material, Run(settings.seed, settings.benchmark.margin, model), args.out)
    base = None if material.base is None else material.base.dialogues
    audits = {
        variant.name: audit_one(
            Audited(variant.name, variant.dialogues, *training_of(args.logs / variant.name / "train.jsonl")),
            None if variant.is_base else base,
            settings,
            personas={},
        )
        for variant in material.variants
    }
    write_json(args.out / "audit.json", audits)
    results = args.out / "results.md"
    write_text_atomically(results, f"{results.read_text(encoding='utf-8')}\n{overview(audits)}")
    return 0


if __name__ == "__main__":
    sys.exit(run_stage(main))
