"""`rlver ui`, `rlver serve-deployments`: what stays running until Ctrl-C."""

from __future__ import annotations

from typing import Annotated

import typer

from rlver.tasks.runtime import environment


def register(app: typer.Typer) -> None:
    app.command()(ui)
    app.command("serve-deployments")(serve_deployments)


def ui(
    mlflow_port: Annotated[int, typer.Option(help="Port for MLflow; another free one is taken if it is in use.")] = 5080,
    prefect_port: Annotated[int, typer.Option(help="Port for Prefect; another free one is taken if it is in use.")] = 4280,
) -> None:
    """Start the web pages of MLflow (numbers) and Prefect (runs) on this machine, and stop them on Ctrl-C."""
    from rlver.tasks.commands import pages
    from rlver.tasks.runtime import servers

    root, where = environment.opened()
    try:
        with servers.user_interfaces(root, where, mlflow_port, prefect_port, typer.echo) as running:
            for name, link in pages.deep_links(where, {server.name: server.url for server in running}):
                typer.echo(f"  {name:<12} {link}")
            typer.echo("Ctrl-C stops them.")
            servers.wait(running)
    except KeyboardInterrupt:
        typer.echo("stopped")


def serve_deployments() -> None:
    """Serve the deployments of prefect.yaml: the nightly run, and the run that starts when new personas have landed."""
    root, _ = environment.opened()
    environment.require_prefect_server(root)

    from rlver.flows import deployments

    deployments.serve_deployments(root)
