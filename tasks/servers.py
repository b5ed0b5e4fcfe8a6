"""The web pages of MLflow and Prefect as child processes on loopback ports, both gone when the caller ends."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from tasks import environment, processes
from tasks.environment import Addresses

HOST = "127.0.0.1"
START_S = 120.0


class ServerFailed(RuntimeError):
    """A server ended, or did not answer in time; the message says where its log is."""


class Server(NamedTuple):
    """A running server; `log` has what it says."""

    name: str
    url: str
    log: Path
    process: subprocess.Popen[bytes]


class Running(NamedTuple):
    servers: tuple[Server, ...]

    def wait(self) -> None:
        """Return only by Ctrl-C. Raises ServerFailed when a server ends by itself."""
        while True:
            for server in self.servers:
                _must_live(server)
            time.sleep(0.5)


def free_port(preferred: int = 0) -> int:
    """`preferred` if nothing listens there, else any free loopback port."""
    for port in (preferred, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise ServerFailed("no free loopback port on this machine")


@contextmanager
def user_interfaces(root: Path, where: Addresses, mlflow_port: int, prefect_port: int, say: Callable[[str], None]) -> Iterator[Running]:
    """Start what is not running elsewhere already, and say the addresses."""
    with ExitStack() as stack:
        started: list[Server] = []
        if where.tracking_uri.startswith(("http://", "https://")):
            say(f"MLflow   {where.tracking_uri} (runs elsewhere)")
        else:
            started.append(stack.enter_context(mlflow(root, where.tracking_uri, free_port(mlflow_port))))
            say(f"MLflow   {started[-1].url}")
        if where.prefect_api_url and answers(f"{where.prefect_api_url}/health"):
            say(f"Prefect  {where.prefect_api_url.removesuffix('/api')} (was running already)")
        else:
            started.append(stack.enter_context(prefect(root, free_port(prefect_port))))
            say(f"Prefect  {started[-1].url}    for `rlver serve-deployments` put this into .env: PREFECT_API_URL={started[-1].url}/api")
        yield Running(tuple(started))


@contextmanager
def mlflow(root: Path, tracking_uri: str, port: int) -> Iterator[Server]:
    """MLflow's server over the tracking store, with one worker and no job runner."""
    options = ("--host", HOST, "--port", str(port), "--backend-store-uri", tracking_uri, "--workers", "1")
    place = ("--default-artifact-root", (root / "mlartifacts").as_uri())
    extra = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    with _serving("mlflow", ("-m", "mlflow", "server", *options, *place), extra, root, port, "/health") as server:
        yield server


@contextmanager
def prefect(root: Path, port: int) -> Iterator[Server]:
    """Prefect's server over the database in PREFECT_HOME. Its own pages need its address too."""
    extra = {"PREFECT_API_URL": f"http://{HOST}:{port}/api", "PREFECT_UI_API_URL": f"http://{HOST}:{port}/api"}
    command = ("-m", "prefect", "server", "start", "--host", HOST, "--port", str(port))
    with _serving("prefect", command, extra, root, port, "/api/health") as server:
        yield server


def answers(url: str) -> bool:
    """Whether an HTTP GET is answered with success."""
    import httpx

    try:
        return httpx.get(url, timeout=5).is_success
    except httpx.HTTPError:
        return False


@contextmanager
def _serving(name: str, command: Sequence[str], extra: Mapping[str, str], root: Path, port: int, health: str) -> Iterator[Server]:
    log = root / ".prefect" / f"{name}-server.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        process = subprocess.Popen(
            (sys.executable, *command),
            cwd=root,
            env=environment.for_child(extra),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        server = Server(name, f"http://{HOST}:{port}", log, process)
        try:
            _await(server, server.url + health)
            yield server
        finally:
            processes.end_group(process, grace_s=10.0)


def _await(server: Server, url: str) -> None:
    end = time.monotonic() + START_S
    while not answers(url):
        _must_live(server)
        if time.monotonic() > end:
            raise ServerFailed(f"the {server.name} server did not answer at {url} within {START_S:.0f} s; its log is {server.log}")
        time.sleep(0.3)


def _must_live(server: Server) -> None:
    if (status := server.process.poll()) is not None:
        said = [line for line in server.log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
        raise ServerFailed(f"the {server.name} server ended with status {status}: {said[-1] if said else 'no output'}; log: {server.log}")
