"""`rlver run`, `rlver report`: the pipeline as a whole."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rlver.tasks.runtime import environment, options

PAPER = "paper/dvc.yaml"
PAPER_REPORT = f"{PAPER}:paper_report"


def register(app: typer.Typer) -> None:
    for command in (run, report):
        app.command()(command)


def run(
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="STAGE", help="Run just this stage, e.g. train or train@grpo-think. Repeatable.")
    ] = None,
    variants: Annotated[
        list[str] | None,
        typer.Option(
            "--variants",
            metavar="NAME",
            help="Run the stages of this variant or recipe and what they need; all: the paper run too, past failures; pretrained: that "
            "pipeline. Repeatable.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Run nothing: show the plan, what it would take, and what is missing (then exit 1).")
    ] = False,
    jobs: Annotated[
        int,
        typer.Option(
            "--jobs",
            metavar="N",
            min=1,
            help="Run up to N stages that do not need each other side by side, each on its share of the cores.",
        ),
    ] = 1,
    stage_hours: Annotated[
        float | None,
        typer.Option("--stage-hours", metavar="HOURS", min=0.001, help="Stop a stage that takes longer; the next run goes on from there."),
    ] = None,
    budget: options.Budget = None,
    replay: options.Replay = False,
) -> None:
    """Run the pipeline: every stage that is out of date, each after what it needs, recorded in Prefect and MLflow."""
    options.limit_endpoints(budget, replay)
    only, variants = (options.split(one, "--only and --variants need a name") for one in (only, variants))
    root, where = environment.opened()
    if dry_run:
        from rlver.tasks.graph.dry_run import look_ahead

        told = look_ahead(root, only, variants)
        typer.echo("\n".join(told.lines))
        if told.missing:
            raise typer.Exit(1)
        return

    import httpx

    from rlver.tasks.graph import dvc, selection
    from rlver.tasks.runtime import servers

    if only or variants:  # a name that is not there is known before a server starts
        selection.select(dvc.plan(root, all_pipelines=bool(variants)), only, variants)
    servers.must_let_us_in(where.prefect_api_url)

    from prefect import tags

    from rlver.flows.reproduce import reproduce
    from rlver.flows.watch import TAG

    try:
        with tags(TAG, *(variants or ())):
            state = reproduce(only, variants, jobs=jobs, stage_hours=stage_hours, return_state=True)
    except httpx.TransportError as error:
        raise RuntimeError(
            f"Prefect's server does not answer any more ({error}); what was finished is kept: start the server, or unset PREFECT_API_URL, "
            "then run the same command again"
        ) from error
    if not state.is_completed():
        raise RuntimeError(state.message or f"the run ended in state {state.name}")
    typer.echo(f"\n{state.message}")
    _say_where_to_look(root)


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
    params: Annotated[Path, typer.Option("--params", help="TRANSCRIPTS: the parameter file.")] = Path("params.yaml"),
    paper: Annotated[bool, typer.Option("--paper", help="The report of the paper run, from what is finished of it.")] = False,
) -> None:
    """Rebuild the pipeline's report if it is out of date; or make one of any transcripts. Say where it is."""
    if transcripts:
        from rlver.tasks.commands.reports import report as report_of

        typer.echo(f"report: {report_of(transcripts, base, personas, robustness, out, params)}")
        return
    if out != Path("report") and not robustness:
        raise ValueError("-o is for a report of transcripts or with --robustness: the pipeline's own is in reports/")
    if base or personas:
        raise ValueError("--base and --personas are for a report of transcripts: name the files, rlver report FILE…")
    if robustness:
        if paper:
            raise ValueError("--robustness is for the pipeline's report or one of transcripts, not for the paper's")
        from rlver.tasks.commands.reports import report_with_robustness

        typer.echo(f"report: {report_with_robustness(environment.project_root(), robustness, out, typer.echo)}")
        return

    from rlver.tasks.graph import dvc
    from rlver.tasks.tracking import results

    root = environment.project_root()
    name, stage = ("paper", PAPER_REPORT) if paper else ("report", "report")
    if paper:
        _say_what_is_stale(root)
    dvc.reproduce(root, stage, typer.echo)
    typer.echo(f"report: {results.reports(root).get(name) or root / results.REPORTS[name]}")


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


def _say_where_to_look(root: Path) -> None:
    from rlver.tasks.tracking import results

    if table := results.table(root):
        typer.echo(f"\n{table}")
    where = environment.addresses(root)
    typer.echo("\nWhere to look")
    for name, page in results.reports(root).items():
        typer.echo(f"  {name:<9} {page}")
    prefect = environment.shown(where.prefect_api_url or str(where.prefect_home))
    typer.echo(f"  runs      {environment.shown(where.tracking_uri)} (MLflow), {prefect} (Prefect)")
    typer.echo("            `rlver ui` serves both and says where")
    typer.echo("  talk      `rlver chat`")
