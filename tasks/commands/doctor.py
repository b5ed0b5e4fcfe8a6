"""Is this machine ready? Every check says what it found and, if that is bad, what to do."""

from __future__ import annotations

import os
import platform
import shutil
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from importlib import metadata
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import psutil

from rlver.components.domain.packages import PACKAGES, cache_folder, is_fetched
from rlver.components.endpoint.chat import EndpointError
from rlver.components.settings.settings import SettingsError, load_settings
from rlver.tasks.commands.licences import locked
from rlver.tasks.graph import dvc
from rlver.tasks.runtime import environment, installed, servers
from rlver.tasks.runtime.connections import to_policy, to_user

MIN_DISK_GB, MIN_MEMORY_GB = 5.0, 3.0
GB = 2**30


class MachineCheck(NamedTuple):
    """One finding. `remedy` is what to do when it is not good."""

    subject: str
    good: bool
    finding: str
    remedy: str


Found = tuple[bool, str, str]  # a MachineCheck without its subject


def examine(root: Path) -> list[MachineCheck]:
    """All checks, in an order in which the first bad one is likely to be the cause of the others."""
    where = environment.addresses(root)
    checks: dict[str, Callable[[], Found]] = {
        "python": _python,
        "packages": lambda: _versions(root / "constraints.txt"),
        "disk": lambda: _disk(root),
        "memory": _memory,
        "gpu": _gpu,
        "weights": lambda: _weights(root),
        "folders": lambda: _folders(root),
        "secrets": lambda: _secrets(root / ".env"),
        "params": lambda: _parameters(root),
        "graph": lambda: _graph(root),
        "locks": lambda: _locks(root),
        "ports": _loopback,
        "prefect": lambda: _prefect(where.prefect_api_url),
        "mlflow": lambda: _mlflow(where.tracking_uri),
        "user endpoint": lambda: _endpoint(root, "user"),
        "policy endpoint": lambda: _endpoint(root, "policy"),
    }
    return [MachineCheck(subject, *check()) for subject, check in checks.items()]


def examine_live(root: Path, model: Path) -> MachineCheck:
    """Does the policy server (the user's own, or one started for this) agree with `model`, also while it gets new weights?"""
    from rlver.components.policy.policy_server import PolicyServerFailed, PolicyServerUnavailable
    from rlver.tasks.runtime.serving.agreement import agreement
    from rlver.tasks.runtime.serving.server import Serving, available
    from rlver.tasks.runtime.serving.setup import NotSetUp

    limit = load_settings(root / "params.yaml").rollout.max_logprob_gap
    try:
        with available(root, Serving(str(model), max_context_tokens=256, concurrency=64)) as url:
            found = agreement(url, environment.policy_server_key(root, url), model, root / "scratch" / "agreement")
    except (NotSetUp, servers.ServerFailed, PolicyServerFailed, PolicyServerUnavailable, ValueError) as error:
        return MachineCheck("policy server", False, " ".join(str(error).split()), "see docs/vllm.md")
    good = found.mean <= limit < found.other and found.under_way > 0
    remedy = f"expected at most {limit} nats on average: docs/vllm.md says what differs"
    return MachineCheck("policy server", good, f"{environment.shown(url)}: {found}", remedy)


def _python() -> Found:
    found = f"{platform.python_version()} at {sys.executable}"
    return sys.version_info >= (3, 11), found, "install Python 3.11 or newer, then `make setup`"


def _versions(constraints: Path) -> Found:
    if not constraints.is_file() and (constraints.parent / installed.CODE).is_file():  # a workspace: pip has seen to the versions
        return True, f"rlver {installed.version('rlver')}", ""
    if not constraints.is_file():
        return False, f"{constraints} is missing", "restore it: git checkout constraints.txt"
    pinned = locked(constraints)
    wrong = [f"{name} {found or 'missing'} instead of {wanted}" for name, wanted in pinned if (found := _installed(name)) != wanted]
    shown = ", ".join(wrong[:5]) + (f" and {len(wrong) - 5} more" if len(wrong) > 5 else "")
    return not wrong, shown or f"{len(pinned)} as in constraints.txt", "run `rm -rf .venv && make setup`"


def _installed(name: str) -> str | None:
    """The version; a local build (2.13.0+cpu) counts as what it was built of."""
    try:
        return metadata.version(name).partition("+")[0]
    except metadata.PackageNotFoundError:
        return None


def _disk(root: Path) -> Found:
    free = shutil.disk_usage(root).free / GB
    return free >= MIN_DISK_GB, f"{free:.1f} GB free", f"free at least {MIN_DISK_GB:.0f} GB; `dvc gc -w` drops old results"


def _memory() -> Found:
    free = psutil.virtual_memory().available / GB
    return free >= MIN_MEMORY_GB, f"{free:.1f} GB available", f"close programs until {MIN_MEMORY_GB:.0f} GB are available"


def _gpu() -> Found:
    count = environment.gpus()
    if not count:
        return True, "none: everything runs on the CPU, and the tiny policy needs no more", ""
    import torch

    usable = torch.cuda.device_count() if torch.cuda.is_available() else 0
    remedy = (
        "the installed torch is built for the CPU, or the driver is too old for it: see docs/guides/real-models.md#install-for-cpu-or-gpu"
    )
    return usable == count, f"{count} listed by the driver, {usable} usable by torch {torch.__version__}", remedy


def _weights(root: Path) -> Found:
    """Of the packages that hold weights: missed are only those that the user of params.yaml reads with; another is fetched when it is used."""
    found = ", ".join(f"{name} {'fetched' if is_fetched(package) else 'not fetched'}" for name, package in PACKAGES.items())
    missing = [name for name in _weights_of_the_user(root) if not is_fetched(PACKAGES[name])]
    remedy = f"run {' and '.join(f'`rlver doctor --fetch {name}`' for name in missing)}: simulator.appraiser needs them"
    return not missing, f"{found} (in {cache_folder()}; `rlver doctor --fetch NAME`)", remedy


def _weights_of_the_user(root: Path) -> list[str]:
    """The packages that the user of params.yaml reads with; none where the parameters are wrong, which another check says."""
    try:
        return [name for part in load_settings(root / "params.yaml").simulator.parts for name in part.kind.weights]
    except ValueError:
        return []


def _endpoint(root: Path, role: environment.Role) -> Found:
    """Asked for its models only, which costs nothing; a server that is not set is not missed."""
    if environment.replays(root):
        return True, "a replay asks nobody (RLVER_REPLAY=1)", ""
    try:
        server = environment.chat_server(role, root)
    except environment.NoServer:
        return True, "not set", ""
    try:
        models = (to_user if role == "user" else to_policy)(load_settings(root / "params.yaml"), []).listed()
    except (ValueError, OSError, EndpointError) as error:
        return False, " ".join(str(error).split()), f"correct {server.url_variable} and {server.key_variable} in .env"
    return True, f"{server.url} lists {len(models)} models", ""


def _folders(root: Path) -> Found:
    needed = ("", "data", "models", "logs", "transcripts", "metrics", "reports", "scratch", ".prefect", ".dvc")
    there = [root / name for name in needed if (root / name).exists()]
    bad = [str(folder) for folder in there if not (folder.is_dir() and os.access(folder, os.W_OK | os.X_OK))]
    return not bad, f"not writable: {', '.join(bad)}" if bad else f"{root} is writable", "change their owner or mode (chmod u+wx)"


def _secrets(file: Path) -> Found:
    """A file of keys is its owner's; on a system without modes nothing can be said."""
    if not file.is_file():
        return True, "no .env", ""
    mode = file.stat().st_mode & 0o777
    return not mode & 0o077, f"{file.name} has mode {mode:03o}", f"others can read the keys in it: chmod 600 {file}"


def _parameters(root: Path) -> Found:
    variants = sorted(path.stem for path in (root / "params").glob("*.yaml"))
    try:
        for variant in (None, *variants):
            load_settings(root / "params.yaml", variant)
    except SettingsError as error:
        return False, str(error), "correct the named key"
    return bool(variants), f"variants: {', '.join(variants) or 'none'}", "params/ is empty: git checkout params"


def _graph(root: Path) -> Found:
    advice = "correct dvc.yaml, or run `git checkout dvc.yaml .dvc/config`"
    try:
        stages, stale = dvc.plan(root), dvc.changed(root)
    except dvc.GraphError as error:
        return False, str(error), advice
    return bool(stages), f"{len(stages)} stages, {len(stages) - len(stale)} up to date", advice


def _locks(root: Path) -> Found:
    path = root / ".dvc" / "tmp" / "rwlock"
    try:
        holders = dvc.holders(root)
    except dvc.GraphError as error:
        return False, str(error).partition(";")[0], f"when no dvc is running: rm {path}"
    dead = sorted(pid for pid in holders if not psutil.pid_exists(pid))
    if dead and len(dead) == len(holders):  # beside a living one DVC takes them out itself
        return False, f"left by processes that ended: {', '.join(map(str, dead))}", f"rm {path}"
    return True, f"in use by process {', '.join(map(str, sorted(holders - set(dead))))}" if holders else "none", ""


def _loopback() -> Found:
    try:
        return True, f"free loopback ports, such as {servers.free_port()}", ""
    except (servers.ServerFailed, OSError) as error:
        return False, str(error), "allow programs to listen on 127.0.0.1"


def _prefect(api_url: str | None) -> Found:
    if api_url is None:
        return True, "no server set; each run starts its own", ""
    shown = environment.shown(api_url)
    try:
        servers.must_let_us_in(api_url)
    except servers.ServerFailed as error:
        return False, shown, str(error)
    return servers.answers(f"{api_url}/health"), shown, "start it (`rlver ui`), or unset PREFECT_API_URL (also in .env)"


def _mlflow(uri: str) -> Found:
    shown, path = environment.shown(uri), Path(uri.removeprefix("sqlite:///"))
    if uri.startswith(("http://", "https://")):
        return (
            servers.answers(f"{uri.rstrip('/')}/health"),
            shown,
            "start it (`rlver ui` does so on this machine), or unset MLFLOW_TRACKING_URI (also in .env)",
        )
    if not uri.startswith("sqlite:///"):
        return False, f"unknown address {shown}", "set MLFLOW_TRACKING_URI to sqlite:////absolute/path.db or http://…"
    if not path.is_file():
        return True, f"{path} will be made by the first run", ""
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=5)) as database:
            runs = database.execute("select count(*) from runs").fetchone()[0]
    except sqlite3.Error as error:
        return False, f"{path}: {error}", f"move {path} away; the next run logs the current results again"
    return True, f"{path}, {runs} runs", ""
