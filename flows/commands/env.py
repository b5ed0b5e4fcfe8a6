"""`rlver env`: the simulated users as an environment for other trainers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rlver.tasks.runtime import environment

app = typer.Typer(name="env", no_args_is_help=True, help="Lend the simulated users to another trainer.")


@app.callback()
def lend() -> None:
    """Keeps `serve` a command of its own."""


@app.command()
def serve(
    personas: Annotated[Path | None, typer.Option(help="Persona file. Default: the project's training split.")] = None,
    port: Annotated[int, typer.Option(min=1, max=65535, help="Where it listens, on loopback.")] = 7700,
    sessions: Annotated[int, typer.Option(min=1, help="Clients at once.")] = 64,
    reward: Annotated[str, typer.Option(help="change: of the emotion at every turn; final: all at the end.")] = "change",
    thinking: Annotated[bool, typer.Option("--thinking/--no-thinking", help="A message needs a thought in tags.")] = False,
    web: Annotated[bool, typer.Option("--web/--no-web", help="OpenEnv's page at /web.")] = False,
    variant: Annotated[str | None, typer.Option(help="Whose settings of the user.")] = None,
) -> None:
    """Serve the simulated users as an OpenEnv environment on this machine until Ctrl-C."""
    from rlver.components.settings.settings import load_settings
    from rlver.tasks.commands import env

    root, _ = environment.opened()
    try:
        settings = load_settings(root / "params.yaml", variant)
        env.serve(settings, personas, port, sessions, reward, thinking, web, typer.echo)
    except KeyboardInterrupt:
        typer.echo("stopped")
