"""What `rlver report TRANSCRIPTS…` does: a report from transcripts alone, without a pipeline around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from components.evaluation.appraiser_card import with_card
from components.evaluation.report.bare import material_of
from components.evaluation.report.loading import read_object
from components.evaluation.report.panels.panel import Run
from components.evaluation.report.render import write_report
from components.files import BadFile
from components.personas.schema import validate_file
from components.settings import load_settings
from tasks.audited import with_audits


def report(transcripts: Sequence[Path], base: str | None, personas: Path | None, robustness: Path | None, out: Path, params: Path) -> Path:
    """Write the report of the files (of a folder: of every *.jsonl in it) into `out`; its first page. `robustness`: what `rlver robustness`
    wrote about the same policies."""
    settings = load_settings(params)
    classes = {persona.persona_id: str(persona.persona_class) for persona in validate_file(personas)} if personas else {}
    material = material_of(_files(transcripts), base, classes, settings.evaluation.bootstrap_samples, settings.seed)
    material = with_audits(material, settings, logs=None)
    if robustness is not None:
        if (found := read_object(robustness)) is None:
            raise BadFile(f"{robustness}: no such file; `rlver robustness` writes it")
        material = replace(material, shared={"robustness": found})
    material = with_card(material, settings.simulator.appraiser)
    write_report(material, Run(settings.seed, settings.benchmark.margin, None, is_bare=True), out)
    return out / "index.html"


def _files(named: Sequence[Path]) -> list[Path]:
    found: list[Path] = []
    for path in named:
        inside = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
        if not inside:
            raise BadFile(f"{path}: no transcripts (*.jsonl) in this folder")
        found += inside
    return found
