"""Endpoints, keys and addresses: the reader of environment variables (but where caches lie is read in domain/packages.py).

Nothing read here may change a result; numbers live in params.yaml. Values come from the process environment or, where that is silent,
from a `.env` file in the project's root (`.env.example` lists them all).
"""

from __future__ import annotations

import base64
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal
from uuid import uuid4

from rlver.components.domain.printable import without_secrets
from rlver.components.endpoint.address import origin
from rlver.tasks.runtime.kept_secrets import find_key, new_key, read_dotenv
from rlver.tasks.runtime.kept_secrets import keep_key as keep_key
from rlver.tasks.runtime.kept_secrets import key_file as key_file

QUIET = {
    # No telemetry, from this process or its children. MLflow takes only the word `true`.
    "DO_NOT_TRACK": "true",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DVC_NO_ANALYTICS": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    # No page of another origin may ask a Prefect server started here, least of all the temporary one of a flow, which has no pages.
    "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": "",
    "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "60",  # seconds; a run that is silent for several of these counts as crashed (flows/watch.py)
    # The first start of Prefect's ephemeral server takes 10 s; on an overloaded machine 80 s were seen, and its default limit is 20 s.
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "180",
    # A tracking server that is down is known to be so in seconds; what it misses waits in spool/.
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "TOKENIZERS_PARALLELISM": "false",
    "TRL_EXPERIMENTAL_SILENCE": "1",
    # oneDNN keeps what it compiled for 1,024 shapes, with its working memory: 0.3 GB more with each step of training (docs/log.md).
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "64",
}

LOOPBACK = ("127.0.0.1", "localhost", "::1")
_PROXIES = tuple(f(name) for name in ("http_proxy", "https_proxy", "all_proxy") for f in (str.lower, str.upper))
EXPERIMENT = "rlver"  # in MLflow, unless another is named
shown = without_secrets  # an address, or a text with some in it, as people may see it
VLLM = Path(".vllm")  # what a vLLM server started here leaves in the project's folder


class NoProject(ValueError):
    """There is no project here; the message says where it was looked for and what to do."""


class NoServer(ValueError):
    """A server is needed and no address is set."""


@dataclass(frozen=True)
class Addresses:
    """Where runs are recorded. `prefect_api_url` is None when flows start a server of their own (the default)."""

    tracking_uri: str
    prefect_api_url: str | None
    prefect_home: Path


def project_root(start: Path | None = None) -> Path:
    """The nearest folder at or above `start` (default: the current one) with dvc.yaml and DVC's own folder, else with dvc.yaml (a pipeline that
    runs by name has one too). Raises NoProject."""
    here = (start or Path.cwd()).resolve()
    if found := [folder for folder in (here, *here.parents) if (folder / "dvc.yaml").is_file()]:
        return next((folder for folder in found if (folder / ".dvc").is_dir()), found[0])
    raise NoProject(f"no dvc.yaml in {here} or above it: change to the project's folder and try again")


def prepare(root: Path) -> Addresses:
    """Set what libraries read from the environment at import, and say where runs are recorded.

    Call it before Prefect or MLflow is imported. A variable that is already set wins, then .env, then QUIET.
    """
    os.environ.update({**QUIET, **read_dotenv(root / ".env"), **os.environ})
    _reach_ourselves()
    where = addresses(root)
    os.environ.setdefault("PREFECT_HOME", str(where.prefect_home))
    os.environ.setdefault("MLFLOW_TRACKING_URI", where.tracking_uri)
    _hold_keys(root, where)
    return where


def opened() -> tuple[Path, Addresses]:
    """The project's root, prepared, and where its runs are recorded. Raises NoProject."""
    return (root := project_root()), prepare(root)


def settle() -> None:
    """The same for a process that records nothing, before its libraries are imported."""
    os.environ.update({**QUIET, **os.environ})
    _reach_ourselves()


def _reach_ourselves() -> None:
    """Proxies of the environment hold for other machines only: Prefect, MLflow and our own requests to this one go straight."""
    hosts = [host for host in (os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or "").split(",") if host]
    if "*" not in hosts and any(os.environ.get(name) for name in _PROXIES):
        os.environ["no_proxy"] = os.environ["NO_PROXY"] = ",".join(dict.fromkeys([*hosts, *LOOPBACK]))


def addresses(root: Path) -> Addresses:
    return Addresses(
        tracking_uri=os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{root.resolve() / 'mlflow.db'}",  # not MLflow's ./mlflow.db
        prefect_api_url=os.environ.get("PREFECT_API_URL") or None,
        prefect_home=Path(os.environ.get("PREFECT_HOME") or root / ".prefect"),
    )


def require_prefect_server(root: Path) -> str:
    """The API address of a Prefect server that stays up. Raises NoServer when none is set."""
    api_url = prepare(root).prefect_api_url
    if api_url is None:
        raise NoServer("no Prefect server is set: start `rlver ui` and put the PREFECT_API_URL that it prints into .env")
    return api_url


def prefect_headers() -> dict[str, str]:
    """What a request to the Prefect server carries: the key that `prepare` found for it."""
    key = os.environ.get("PREFECT_API_AUTH_STRING")
    return {"Authorization": f"Basic {base64.b64encode(key.encode()).decode()}"} if key else {}


def policy_server_url(root: Path) -> str | None:
    """The user's own vLLM server for rollouts, without a slash at the end; None when a stage starts its own."""
    return (_value(root, "RLVER_POLICY_SERVER_URL") or "").rstrip("/") or None


def policy_server_key(root: Path, url: str) -> str | None:
    """The key of the vLLM server at `url`: RLVER_POLICY_SERVER_KEY for the user's own; a server started here has its key in a file."""
    own = url == policy_server_url(root) and _key_for(root, "RLVER_POLICY_SERVER_KEY", "RLVER_POLICY_SERVER_URL", url)
    return own or find_key(root / VLLM, url)


def for_child(extra: Mapping[str, str] | None = None, jobs: int = 1) -> dict[str, str]:
    """This process's environment for a child: its `python` is ours, output unbuffered, telemetry off, plus `extra`.

    One of several `jobs` at once computes with its share of the cores, unless OMP_NUM_THREADS is set.
    """
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))
    share = {"OMP_NUM_THREADS": str(max(1, cores() // jobs))} if jobs > 1 else {}
    return {**QUIET, **share, **os.environ, "PATH": path, "PYTHONUNBUFFERED": "1", **(extra or {})}


def experiment() -> str:
    """The name of the MLflow experiment that runs go to."""
    return os.environ.get("MLFLOW_EXPERIMENT_NAME") or EXPERIMENT


def registry_uri(tracking_uri: str) -> str:
    """Where models are registered: with the runs, unless a place is named."""
    return os.environ.get("MLFLOW_REGISTRY_URI") or tracking_uri


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def gpus() -> int:
    """How many GPUs this process may use, by the driver's own tool; 0 without it."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    there = sum(line.startswith("GPU ") for line in listed.stdout.splitlines()) if listed.returncode == 0 else 0
    return there if visible is None else min(there, len([part for part in visible.split(",") if part.strip() not in ("", "-1")]))


@dataclass(frozen=True)
class ServerAddress:
    """A chat endpoint as the environment names it. `key` reads the key anew each time it is called, so that nobody keeps it; `key_left_out`
    says in one line that a key is set and goes to another server than this one (None: nothing is left out)."""

    url: str
    url_variable: str
    key_variable: str
    key: Callable[[], str | None]
    key_left_out: str | None = None


Role = Literal["user", "policy"]  # who is played by the models behind a chat endpoint
_ADDRESS = {"user": "RLVER_USER_URL", "policy": "RLVER_POLICY_URL"}
_KEY = {"user": "RLVER_USER_KEY", "policy": "RLVER_POLICY_KEY"}


def chat_server(role: Role, root: Path | None = None, url: str | None = None) -> ServerAddress:
    """The server whose models play the simulated user or the policy, at `url` if that is given.

    It gets the key only if that was set for its origin. Raises NoServer, but not in a replay, which asks nobody.
    """
    at = root or project_root()
    url = url or _value(at, _ADDRESS[role]) or ("http://127.0.0.1/nobody-is-asked" if replays(at) else None)
    if url is None:
        raise NoServer(
            f"no chat endpoint is set: put {_ADDRESS[role]}=http://127.0.0.1:8100/v1 into .env (and {_KEY[role]}, where it needs one)"
        )
    key, left_out = partial(_key_for, at, _KEY[role], _ADDRESS[role], url), None
    if _value(at, _KEY[role]) and not key():
        meant_for = origin(_meant_for(at, _KEY[role], _ADDRESS[role]) or "") or "another address"
        left_out = (
            f"{_KEY[role]} was set for {meant_for} and is not sent to {origin(url)}: "
            f"set {_ADDRESS[role]} and {_KEY[role]} together, in the same place, to use it there"
        )
    return ServerAddress(url, _ADDRESS[role], _KEY[role], key, left_out)


def _key_for(root: Path, key: str, address: str, url: str) -> str | None:
    """The value of the variable `key`, if it was set for the origin of `url`, or for none."""
    meant_for = _meant_for(root, key, address)
    return _value(root, key) if meant_for is None or origin(meant_for) == origin(url) else None


def _meant_for(root: Path, key: str, address: str) -> str | None:
    """The address that the key was set beside; None where there is none. A key of .env stays with the address of .env also where the
    process names another: `prepare` copies both into the process, one by one, so it is the key's value that tells where it is from."""
    in_file = read_dotenv(root / ".env")
    return (in_file.get(address) if in_file.get(key) == _value(root, key) else None) or _value(root, address)


def serve_key(root: Path) -> str | None:
    """The key that clients of `rlver serve policy` must send; None: anybody who reaches it may ask. Raises ValueError for no key at all."""
    key = (_value(root, "RLVER_SERVE_KEY") or "").strip()
    if key and not re.fullmatch(r"[\x21-\x7e]{16,}", key):
        raise ValueError("RLVER_SERVE_KEY must be 16 characters or more of ASCII without spaces, as of `openssl rand -hex 32`")
    return key or None


def replays(root: Path | None = None) -> bool:
    """Whether chat endpoints answer from what is stored only (RLVER_REPLAY=1, or `--replay`). Raises NoProject."""
    return _value(root or project_root(), "RLVER_REPLAY") == "1"


def budget() -> float | None:
    """The budget of `--budget`, which replaces endpoint.budget of params.yaml; None: not given. Raises ValueError."""
    text = _value(project_root(), "RLVER_BUDGET")
    if not text:
        return None
    try:
        amount = float(text)
    except ValueError:
        amount = -1.0
    if not amount >= 0:
        raise ValueError(f"the budget (--budget, RLVER_BUDGET) must be an amount of money, 0 or more, got {text!r}")
    return amount


def limit_endpoints(budget: float | None, replay: bool = False) -> None:
    """What --budget and --replay say, for this process and its children."""
    if budget is not None:
        os.environ["RLVER_BUDGET"] = str(budget)
    if replay:
        os.environ["RLVER_REPLAY"] = "1"


def run_name() -> str:
    """What marks the calls of this run in a file of answers: the same for all processes of one training."""
    return os.environ.get("RLVER_RUN") or os.environ.get("TORCHELASTIC_RUN_ID") or uuid4().hex


def _hold_keys(root: Path, where: Addresses) -> None:
    """Give this process and its children the keys of the servers that they will ask. The temporary server of a flow gets a fresh one."""
    if (api_url := where.prefect_api_url) is None:
        key = os.environ.setdefault("PREFECT_SERVER_API_AUTH_STRING", new_key())
    else:
        key = _key_for(root, "PREFECT_API_AUTH_STRING", "PREFECT_API_URL", api_url) or find_key(where.prefect_home, api_url) or ""
    os.environ["PREFECT_API_AUTH_STRING"] = key  # also where it is empty: Prefect reads .env too, and looks at no address
    if (url := policy_server_url(root)) and (key := policy_server_key(root, url) or ""):
        os.environ["RLVER_POLICY_SERVER_KEY"] = key


def debug() -> bool:
    """Whether errors come with their traceback (RLVER_DEBUG=1, or `rlver --debug`); asked for in no project too."""
    with suppress(ValueError, OSError):  # of a .env that cannot be read: it must not hide the error that is to be shown
        return _value(project_root(), "RLVER_DEBUG") == "1"
    return os.environ.get("RLVER_DEBUG") == "1"


def set_debug() -> None:
    os.environ["RLVER_DEBUG"] = "1"


def _value(root: Path, name: str) -> str | None:
    """A variable of the process, or of .env: `dvc repro` starts stages without `prepare`."""
    return os.environ.get(name) or read_dotenv(root / ".env").get(name)
