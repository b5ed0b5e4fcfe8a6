"""The commands that are Prefect flows: `rlver run`, `promote`, `serve-deployments`, `personas landed`. The others stand in tasks/commands/."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rlver.tasks.commands.personas import app as personas
from rlver.tasks.runtime import environment, options


def register(app: typer.Typer) -> None:
    for command in (run, promote):
        app.command()(command)
    app.command("serve-deployments")(serve_deployments)
    personas.command()(landed)


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
            f"Prefect's server does not answer any more ({error}); what was finished is kept: start the server, or unset PREFECT_API_URL (also in .env), "
            "then run the same command again"
        ) from error
    if not state.is_completed():
        raise RuntimeError(state.message or f"the run ended in state {state.name}")
    typer.echo(f"\n{state.message}")
    _say_where_to_look(root)


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


def promote(
    variant: Annotated[str, typer.Argument(help="A trained variant, e.g. grpo-think.")],
    approval: Annotated[bool, typer.Option("--approval", help="Wait for a person, who decides in the form of the paused run.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what the gate says.")] = False,
) -> None:
    """Make a variant the champion in MLflow's registry, if it is better than the champion, loses nothing else and passes the audit."""
    root = environment.project_root()
    if approval:
        environment.require_prefect_server(root)

    from rlver.tasks.runtime import servers

    servers.must_let_us_in(environment.prepare(root).prefect_api_url)

    from prefect import tags

    from rlver.flows.promote import promote as flow
    from rlver.flows.watch import TAG

    with tags(TAG, variant):
        state = flow(variant, approval=approval, only_judge=dry_run, return_state=True)
    if not state.is_completed():
        raise RuntimeError(f"not promoted: {state.message}" if state.message else f"the run ended in state {state.name}")
    typer.echo(state.message)


def serve_deployments() -> None:
    """Serve the deployments of prefect.yaml: the nightly run, and the run that starts when new personas have landed."""
    root, _ = environment.opened()
    environment.require_prefect_server(root)

    from rlver.flows import deployments

    deployments.serve_deployments(root)


def landed(file: Annotated[Path, typer.Argument(help="The persona file that has arrived.")]) -> None:
    """Announce new persona data: starts the deployment that waits for it (see `rlver serve-deployments`)."""
    from rlver.tasks.runtime import servers

    servers.must_let_us_in(environment.require_prefect_server(environment.project_root()))
    from rlver.flows.deployments import LANDED, personas_landed

    typer.echo(f"emitted {LANDED} for {file} (MD5 {personas_landed(file)})")
