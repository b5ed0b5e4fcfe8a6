"""The web pages of MLflow and Prefect as child processes on loopback ports, both gone when the caller ends.

A loopback port keeps no web page out: any page that the user has open can send requests to it, by its address or by a name of its own that
points there (DNS rebinding), and what Prefect takes, it runs. So Prefect wants a key, and MLflow answers to its own name only.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from rlver.tasks.runtime import environment, processes
from rlver.tasks.runtime.environment import Addresses, key_file
from rlver.tasks.runtime.kept_secrets import find_key

HOST = "127.0.0.1"
NAMES = (HOST, "localhost")  # of this machine, as people type them
MLFLOW_PORT, PREFECT_PORT = 5080, 4280  # where no address names one
START_S = 120.0
# Prefect forgets who holds a slot of a concurrency limit when it starts again, unless leases are files.
LEASES = {"PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": "prefect.server.concurrency.lease_storage.filesystem"}


class ServerFailed(RuntimeError):
    """A server ended, or did not answer in time; the message says where its log is."""


class Server(NamedTuple):
    """A running server; `log` has what it says."""

    name: str
    url: str
    log: Path
    process: subprocess.Popen[bytes]


class PlannedServer(NamedTuple):
    """A server to be: what runs where, and the path that answers when it is ready, within `start_s` seconds.

    `on_begun` is called with it once its process is there, long before it is ready.
    """

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    folder: Path
    port: int
    log: Path
    health: str
    start_s: float
    on_begun: Callable[[Server], None] | None = None


def wait(running: Sequence[Server]) -> None:
    """Return only by Ctrl-C. Raises ServerFailed when a server ends by itself."""
    while True:
        for server in running:
            _must_live(server)
        time.sleep(0.5)


def free_port(preferred: int = 0, host: str = HOST) -> int:
    """`preferred` if nothing listens there at `host`, else any free port of it."""
    for port in (preferred, 0):
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise ServerFailed(
        "no free loopback port on this machine; end servers that you no longer need"
        if host == HOST
        else f"no free port at {host}: is it this machine's?"
    )


@contextmanager
def user_interfaces(
    root: Path, where: Addresses, mlflow_port: int | None, prefect_port: int | None, say: Callable[[str], None], waiting: int = 0
) -> Iterator[list[Server]]:
    """Start what is not running elsewhere already, and say the addresses. A port that is not given is that of the address that is set.

    While `waiting` runs have not been sent to it, no new mlflow.db takes the place of a tracker: it may be another one's, behind a tunnel.
    """
    with ExitStack() as stack:
        started: list[Server] = []
        uri = where.tracking_uri
        if not uri.startswith(("http://", "https://")):
            started.append(stack.enter_context(mlflow(root, uri, free_port(mlflow_port or MLFLOW_PORT))))
            say(f"MLflow   {started[-1].url}")
        elif answers(f"{uri.rstrip('/')}/health"):
            say(f"MLflow   {environment.shown(uri)} (runs elsewhere)")
        elif waiting and not mlflow_port and not (root / "mlflow.db").exists():
            say(
                f"MLflow   {environment.shown(uri)} (does not answer at /health, and {waiting} runs in spool/ wait for it: start it; "
                "to serve this project's own mlflow.db instead, give its port: --mlflow-port)"
            )
        elif (own := own_port(uri)) and (mlflow_port or free_port(own) == own):
            port = free_port(mlflow_port) if mlflow_port else own
            started.append(stack.enter_context(mlflow(root, f"sqlite:///{root.resolve() / 'mlflow.db'}", port)))
            say(f"MLflow   {started[-1].url} (serves this project's mlflow.db, since nothing answered at {environment.shown(uri)})")
        else:
            say(f"MLflow   {environment.shown(uri)} (does not answer at /health)")
        if where.prefect_api_url and answers(f"{where.prefect_api_url}/health"):
            say(f"Prefect  {environment.shown(where.prefect_api_url.removesuffix('/api'))} (was running already)")
        else:
            port = free_port(prefect_port or own_port(where.prefect_api_url or "") or PREFECT_PORT)
            started.append(stack.enter_context(prefect(root, port)))
            say(f"Prefect  {started[-1].url}    for `rlver serve-deployments` put this into .env: PREFECT_API_URL={started[-1].url}/api")
            password = "your PREFECT_API_AUTH_STRING" if _given_key(where, port) else f"the line in {key_file(where.prefect_home, port)}"
            say(f"         asks each browser once for a password: {password}")
        yield started


def own_port(url: str) -> int | None:
    """The port of an address at which a server of this machine can be started; None of another machine's, or of https."""
    parts = urlsplit(url)
    return parts.port if parts.scheme == "http" and parts.hostname in NAMES else None


def mlflow(root: Path, tracking_uri: str, port: int) -> AbstractContextManager[Server]:
    """MLflow's server over the tracking store, with one worker and no job runner. It answers to this very address only: what MLflow allows
    by itself, such as `10.*`, is also a name that somebody can register."""
    options = ("--host", HOST, "--port", str(port), "--workers", "1")
    place = ("--default-artifact-root", (root / "mlartifacts").as_uri())
    extra = {
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "MLFLOW_TRACKING_URI": tracking_uri,  # not the server's own address, which .env may name
        "MLFLOW_BACKEND_STORE_URI": tracking_uri,  # no option: everybody may read a command line, and a password may be in it
        "MLFLOW_SERVER_ALLOWED_HOSTS": ",".join(f"{name}:{port}" for name in NAMES),
        "MLFLOW_SERVER_CORS_ALLOWED_ORIGINS": _origins(port),
    }
    return serving(_ours("mlflow", ("-m", "mlflow", "server", *options, *place), extra, root, port, "/health"))


def prefect(root: Path, port: int) -> AbstractContextManager[Server]:
    """Prefect's server over the database in PREFECT_HOME. Who asks it needs its key, which is in a file there unless the user set one, and no
    other origin's page may."""
    where = environment.addresses(root)
    key = _given_key(where, port) or environment.keep_key(where.prefect_home, port)
    extra = {
        "PREFECT_API_URL": f"http://{HOST}:{port}/api",
        "PREFECT_UI_API_URL": "/api",  # its pages ask where they came from
        "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": _origins(port),
        "PREFECT_SERVER_API_AUTH_STRING": key,
        "PREFECT_API_AUTH_STRING": key,
        **LEASES,
    }
    command = ("-m", "prefect", "server", "start", "--host", HOST, "--port", str(port))
    return serving(_ours("prefect", command, extra, root, port, "/api/health"))


def _given_key(where: Addresses, port: int) -> str | None:
    """The key that the user set for Prefect's server at this port: what clients will send. None where there is none but that in its file."""
    url = where.prefect_api_url or ""
    held = environment.for_child().get("PREFECT_API_AUTH_STRING") if own_port(url) == port else None
    return held if held and held != find_key(where.prefect_home, url) else None


def _origins(port: int) -> str:
    return ",".join(f"http://{name}:{port}" for name in NAMES)


def _ours(name: str, command: Sequence[str], extra: Mapping[str, str], root: Path, port: int, health: str) -> PlannedServer:
    """A server of this project's own environment, which ends with this process."""
    log = root / ".prefect" / f"{name}-server.log"
    with_parent = (sys.executable, "-c", processes.WITH_ITS_PARENT, str(os.getpid()), *command)
    return PlannedServer(name, with_parent, environment.for_child(extra), root, port, log, health, START_S)


def answers(url: str) -> bool:
    """Whether an HTTP GET is answered with success."""
    import httpx

    try:
        with httpx.stream("GET", url, timeout=5) as response:  # its body may have no end, and nobody reads it
            return response.is_success
    except (httpx.HTTPError, httpx.InvalidURL):
        return False


def must_let_us_in(api_url: str | None) -> None:
    """Raise ServerFailed, with what to do, if the Prefect server at this address does not answer, or not to the key that this process holds."""
    import httpx

    if not api_url:
        return
    where = f"the Prefect server at {environment.shown(api_url)}"
    try:
        status = httpx.get(f"{api_url}/version", headers=environment.prefect_headers(), timeout=20).status_code
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise ServerFailed(
            f"{where} does not answer ({environment.shown(str(error))}): start it (`rlver ui`), or unset PREFECT_API_URL (also in .env)"
        ) from error
    if status == 401:
        raise ServerFailed(
            f"{where} does not take our key: put PREFECT_API_AUTH_STRING=… into .env "
            "(the key of a server that another project's `rlver ui` started is in that project's .prefect/PORT.key)"
        )


@contextmanager
def serving(planned: PlannedServer) -> Iterator[Server]:
    """A child process in a group of its own that answers; ended with all of its group."""
    planned.log.parent.mkdir(parents=True, exist_ok=True)
    with planned.log.open("wb") as output:
        process = subprocess.Popen(
            planned.command,
            cwd=planned.folder,
            env=dict(planned.environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        server = Server(planned.name, f"http://{HOST}:{planned.port}", planned.log, process)
        try:
            if planned.on_begun is not None:
                planned.on_begun(server)
            _await(server, server.url + planned.health, planned.start_s)
            _must_live(server)  # else it was another's server that answered
            yield server
        finally:
            processes.end_group(process, grace_s=10.0)


def _await(server: Server, url: str, start_s: float) -> None:
    end = time.monotonic() + start_s
    while not (_listens(server.url) and answers(url)):
        _must_live(server)
        if time.monotonic() > end:
            raise ServerFailed(f"the {server.name} server did not answer at {url} within {start_s:.0f} s; its log is {server.log}")
        time.sleep(0.3)


def _listens(url: str) -> bool:
    """Whether anything is at the port: far cheaper to ask than `answers`."""
    try:
        with socket.create_connection((HOST, int(url.rpartition(":")[2])), timeout=5):
            return True
    except OSError:
        return False


def _must_live(server: Server) -> None:
    if (status := server.process.poll()) is not None:
        said = cause(server.log.read_text(encoding="utf-8", errors="replace"))
        raise ServerFailed(f"the {server.name} server ended with status {status}: {said}; log: {server.log}")


def cause(log: str) -> str:
    """The line of a log that says most about why its process ended: the first error of the last traceback's chain, or the last line."""
    said = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [line for line in said if re.search(r"\b\w*(Error|Exception|Interrupt): ", line) and "root cause" not in line]
    return (errors or said or ["no output"])[-1]
