"""Stage report: transcripts, metrics and logs of all variants -> reports/: index.html, results.md, tables/, plots/, audit.json."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rlver.components.domain.files import write_json
from rlver.components.domain.registry import PANELS
from rlver.components.personas.schema import validate_file
from rlver.components.report.material import BASE, load_material
from rlver.components.report.page import write_report
from rlver.components.report.panels.appraiser import with_card
from rlver.components.report.panels.panel import Panel, ReportRun, Sources
from rlver.components.report.portraits import with_portraits
from rlver.components.scoring.units import Sampling
from rlver.components.settings.sections import TINY
from rlver.components.settings.settings import load_settings
from rlver.tasks.runtime.stage import run_stage


def main(argv: Sequence[str] | None = None) -> int:
    """Make the report of whatever variants have transcripts."""
    parser = argparse.ArgumentParser(prog="python -m rlver.tasks.stages.report", description=__doc__)
    parser.add_argument("--variant", help="with whose overlay the parameters are read")
    parser.add_argument("--base", default=BASE, help="the variant that the others are compared with")
    parser.add_argument("--transcripts", type=Path, required=True, help="folder of <variant>.jsonl")
    parser.add_argument("--metrics", type=Path, required=True, help="folder of <variant>/<kind>.json: sentient, general and more")
    parser.add_argument("--logs", type=Path, required=True, help="folder of <variant>/train.csv, evaluation.csv and held_out/")
    parser.add_argument("--personas", type=Path, help="the personas file, to filter dialogues by class")
    parser.add_argument("--train-personas", type=Path, help="the file that the held-out personas of the training are from")
    parser.add_argument("--robustness", type=Path, help="what `rlver robustness` wrote about these variants")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--params", type=Path, default=Path("params.yaml"))
    args = parser.parse_args(argv)

    settings = load_settings(args.params, args.variant)
    model = settings.base.model if settings.base.kind != TINY else None
    personas = validate_file(args.personas) if args.personas else []
    people = [*personas, *(validate_file(args.train_personas) if args.train_personas else [])]
    classes = {persona.persona_id: str(persona.persona_class) for persona in personas}
    material = load_material(args.transcripts, args.metrics, args.logs, classes, args.base)
    files = {"robustness": args.robustness} if args.robustness else {}
    panels = panels_of_studies()
    for panel in panels:
        material = panel.gather(material, Sources(settings, people, args.logs, args.params, files))
    material = with_portraits(material, Sampling.over(people, settings.evaluation.bootstrap_samples, settings.seed))
    material = with_card(material, settings.simulator.appraiser)
    write_report(material, ReportRun(settings.seed, settings.benchmark.margin, model), args.out, panels)
    write_json(args.out / "audit.json", {variant.name: variant.metrics["audit"] for variant in material.variants})
    return 0


def panels_of_studies() -> list[Panel]:
    """Of each study that has one, in alphabetical order."""
    return [PANELS.load(name) for name in PANELS.names()]


if __name__ == "__main__":
    sys.exit(run_stage(main))
