"""What `rlver report TRANSCRIPTS…` does: a report from transcripts alone, without a pipeline around it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from rlver.components.domain.files import BadFile
from rlver.components.report.material import material_of
from rlver.components.report.page import write_report
from rlver.components.report.panels.appraiser import with_card
from rlver.components.report.panels.panel import ReportRun, Sources
from rlver.components.scoring.units import Sampling
from rlver.components.settings.settings import load_settings
from rlver.tasks.runtime.options import TEST_PERSONAS, TRAIN_PERSONAS
from rlver.tasks.runtime.people import known_personas
from rlver.tasks.stages.report import main as report_stage
from rlver.tasks.stages.report import panels_of_studies
from rlver.tasks.studies.robustness.panel import load_robustness


def report(transcripts: Sequence[Path], base: str | None, personas: Path | None, robustness: Path | None, out: Path, params: Path) -> Path:
    """Write the report of the files (of a folder: of every *.jsonl in it) into `out`; its first page. `robustness`: what `rlver robustness`
    wrote about the same policies."""
    settings = load_settings(params)
    people = known_personas(personas)
    classes = {persona.persona_id: str(persona.persona_class) for persona in people}
    material = material_of(_files(transcripts), base, classes, Sampling.over(people, settings.evaluation.bootstrap_samples, settings.seed))
    panels = panels_of_studies()
    for panel in panels:
        material = panel.gather(material, Sources(settings, people, files={} if robustness is None else {"robustness": robustness}))
    material = with_card(material, settings.simulator.appraiser)
    write_report(material, ReportRun(settings.seed, settings.benchmark.margin, None, is_bare=True), out, panels)
    return out / "index.html"


def report_with_robustness(root: Path, robustness: Path, out: Path, say: Callable[[str], None]) -> Path:
    """The pipeline's report, brought up to date, once more with what `rlver robustness` wrote, into `out`; its first page.

    Not into the pipeline's own folder: that is an output of DVC, and what DVC did not make there it would call changed.
    """
    from rlver.tasks.graph import dvc
    from rlver.tasks.tracking import results

    load_robustness(robustness)
    if out.resolve() == (root / results.REPORTS["report"]).parent.resolve():
        raise ValueError(f"-o {out}: this folder is the pipeline's; name another one for the report with --robustness")
    dvc.reproduce(root, "report", say)
    folders = [part for name in ("transcripts", "metrics", "logs") for part in (f"--{name}", str(root / name))]
    people = ["--personas", str(root / TEST_PERSONAS), "--train-personas", str(root / TRAIN_PERSONAS)]
    files = [*people, "--params", str(root / "params.yaml")]
    report_stage([*folders, *files, "--robustness", str(robustness), "--out", str(out)])
    return out / "index.html"


def _files(named: Sequence[Path]) -> list[Path]:
    found: list[Path] = []
    for path in named:
        inside = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
        if not inside:
            raise BadFile(f"{path}: no transcripts (*.jsonl) in this folder; name the folder that holds them")
        found += inside
    return found
