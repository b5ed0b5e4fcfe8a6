"""`rlver report`: the pipeline's report brought up to date, or one of transcripts alone, without a pipeline around it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from rlver.components.domain.files import BadFile
from rlver.tasks.runtime import environment, options
from rlver.tasks.runtime.options import TEST_PERSONAS, TRAIN_PERSONAS

PAPER = "paper/dvc.yaml"
PAPER_REPORT = f"{PAPER}:paper_report"


def register(app: typer.Typer) -> None:
    app.command()(report)


def report(
    transcripts: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[TRANSCRIPTS …]", help="Transcript files or folders, also imported ones: a report of these alone."),
    ] = None,
    out: Annotated[Path, options.out("TRANSCRIPTS or --robustness: the folder to write the report into.", options.FOLDER)] = Path("report"),
    base: Annotated[
        str | None, typer.Option("--base", metavar="NAME", help="TRANSCRIPTS: the policy the others are paired with (default: base).")
    ] = None,
    personas: Annotated[Path | None, typer.Option("--personas", help="TRANSCRIPTS: the personas file, for their classes.")] = None,
    robustness: Annotated[Path | None, typer.Option("--robustness", metavar="FILE", help="With what `rlver robustness` wrote.")] = None,
    params: Annotated[
        Path | None, typer.Option("--params", metavar="FILE", help="TRANSCRIPTS: the parameter file (default: params.yaml).")
    ] = None,
    paper: Annotated[bool, typer.Option("--paper", help="The report of the paper run, from what is finished of it.")] = False,
) -> str:
    """Rebuild the pipeline's report if it is out of date; or make one of any transcripts. Say where it is."""
    if transcripts and paper:
        raise ValueError("--paper is the paper run's own report: leave the transcripts out")
    if transcripts:
        return f"report: {_of_transcripts(transcripts, base, personas, robustness, out, params or Path('params.yaml'))}"
    if out != Path("report") and not robustness:
        raise ValueError("-o is for a report of transcripts or with --robustness: the pipeline's own is in reports/")
    if base or personas or params:
        raise ValueError("--base, --personas and --params are for a report of transcripts: name the files, rlver report FILE…")
    if robustness:
        if paper:
            raise ValueError("--robustness is for the pipeline's report or one of transcripts, not for the paper's")
        return f"report: {_with_robustness(environment.project_root(), robustness, out)}"

    from rlver.tasks.graph import dvc
    from rlver.tasks.tracking import results

    root = environment.project_root()
    name, stage = ("paper", PAPER_REPORT) if paper else ("report", "report")
    if paper:
        _say_what_is_stale(root)
    dvc.reproduce(root, stage, typer.echo)
    return f"report: {results.reports(root).get(name) or root / results.REPORTS[name]}"


def _of_transcripts(
    transcripts: Sequence[Path], base: str | None, personas: Path | None, robustness: Path | None, out: Path, params: Path
) -> Path:
    """Write the report of the files (of a folder: of every *.jsonl in it) into `out`; its first page. `robustness`: what `rlver robustness`
    wrote about the same policies."""
    from rlver.components.report.material import material_of
    from rlver.components.report.page import write_report
    from rlver.components.report.panels.appraiser import with_card
    from rlver.components.report.panels.panel import ReportRun, Sources
    from rlver.components.scoring.units import Sampling
    from rlver.components.settings.settings import load_settings
    from rlver.tasks.runtime.people import known_personas, warn_of_strangers
    from rlver.tasks.stages.report import panels_of_studies

    settings = load_settings(params)
    people = known_personas(personas)
    classes = {persona.persona_id: str(persona.persona_class) for persona in people}
    material = material_of(_files(transcripts), base, classes, Sampling.over(people, settings.evaluation.bootstrap_samples, settings.seed))
    warn_of_strangers(people, (dialogue for variant in material.variants for dialogue in variant.dialogues), personas)
    panels = panels_of_studies()
    for panel in panels:
        material = panel.gather(material, Sources(settings, people, None, params, {} if robustness is None else {"robustness": robustness}))
    material = with_card(material, settings.simulator.appraiser)
    write_report(material, ReportRun(settings.seed, settings.benchmark.margin, None, is_bare=True), out, panels)
    return out / "index.html"


def _with_robustness(root: Path, robustness: Path, out: Path) -> Path:
    """The pipeline's report, brought up to date, once more with what `rlver robustness` wrote, into `out`; its first page.

    Not into the pipeline's own folder: that is an output of DVC, and what DVC did not make there it would call changed.
    """
    from rlver.tasks.graph import dvc
    from rlver.tasks.stages.report import main as report_stage
    from rlver.tasks.studies.robustness.panel import load_robustness
    from rlver.tasks.tracking import results

    load_robustness(robustness)
    if out.resolve() == (root / results.REPORTS["report"]).parent.resolve():
        raise ValueError(f"-o {out}: this folder is the pipeline's; name another one for the report with --robustness")
    dvc.reproduce(root, "report", typer.echo)
    folders = [part for name in ("transcripts", "metrics", "logs") for part in (f"--{name}", str(root / name))]
    people = ["--personas", str(root / TEST_PERSONAS), "--train-personas", str(root / TRAIN_PERSONAS)]
    files = [*people, "--params", str(root / "params.yaml")]
    report_stage([*folders, *files, "--robustness", str(robustness), "--out", str(out)])
    return out / "index.html"


def _say_what_is_stale(root: Path) -> None:
    """The report of the paper run takes what is there: it must not pass for what the files would give now."""
    from rlver.tasks.graph import dvc, pipelines

    if not (root / "paper" / "transcripts").is_dir():
        raise ValueError("nothing of the paper run is there yet: run `rlver run --variants all`")
    pipelines.ask_for(root, [PAPER_REPORT])
    steps = [step.name for step in dvc.plan(root, all_pipelines=True) if step.pipeline in (dvc.PIPELINE, PAPER)]
    stale = [name for name in dvc.changed(root, steps) if name != PAPER_REPORT]
    if stale:
        typer.echo(f"not run yet or out of date ({len(stale)}): {', '.join(stale)}")


def _files(named: Sequence[Path]) -> list[Path]:
    found: list[Path] = []
    for path in named:
        inside = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
        if not inside:
            raise BadFile(f"{path}: no transcripts (*.jsonl) in this folder; name the folder that holds them")
        found += inside
    return found
