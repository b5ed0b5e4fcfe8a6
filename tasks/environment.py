"""Endpoints, keys and addresses: the only reader of environment variables.

Nothing read here may change a result; numbers live in params.yaml. Values come from the process environment or, where that is silent,
from a `.env` file in the project's root (`.env.example` lists them all).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

QUIET = {
    # No telemetry, from this process or its children. MLflow takes only the word `true`.
    "DO_NOT_TRACK": "true",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DVC_NO_ANALYTICS": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    # The first start of Prefect's ephemeral server takes 10 s; on an overloaded machine 80 s were seen, and its default limit is 20 s.
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "180",
    # A tracking server that is down costs seconds, not minutes: what it misses is logged by the next run.
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
    "TOKENIZERS_PARALLELISM": "false",
    "TRL_EXPERIMENTAL_SILENCE": "1",
}


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
    """The nearest folder at or above `start` (default: the current one) that holds a dvc.yaml. Raises NoProject."""
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents):
        if (folder / "dvc.yaml").is_file():
            return folder
    raise NoProject(f"no dvc.yaml in {here} or above it: change to the project's folder and try again")


def prepare(root: Path) -> Addresses:
    """Set what libraries read from the environment at import, and say where runs are recorded.

    Call it before Prefect or MLflow is imported. A variable that is already set wins.
    """
    for name, value in {**_dotenv(root / ".env"), **QUIET}.items():
        os.environ.setdefault(name, value)
    os.environ.setdefault("PREFECT_HOME", str(root / ".prefect"))
    os.environ.setdefault("MLFLOW_TRACKING_URI", default_tracking_uri(root))
    return addresses(root)


def addresses(root: Path) -> Addresses:
    return Addresses(
        tracking_uri=os.environ.get("MLFLOW_TRACKING_URI") or default_tracking_uri(root),
        prefect_api_url=os.environ.get("PREFECT_API_URL") or None,
        prefect_home=Path(os.environ.get("PREFECT_HOME") or root / ".prefect"),
    )


def require_prefect_server(root: Path) -> str:
    """The API address of a Prefect server that stays up. Raises NoServer when none is set."""
    api_url = prepare(root).prefect_api_url
    if api_url is None:
        raise NoServer("no Prefect server is set: start `rlver ui` and put the PREFECT_API_URL that it prints into .env")
    return api_url


def policy_server_url(root: Path) -> str | None:
    """The user's own vLLM server for rollouts, without a slash at the end; None when a stage starts its own.

    A stage that was not started by `rlver` has not read the `.env` file yet, so this does.
    """
    name = "RLVER_POLICY_SERVER_URL"
    return (os.environ.get(name) or _dotenv(root / ".env").get(name, "")).rstrip("/") or None


def default_tracking_uri(root: Path) -> str:
    """An absolute address: MLflow's own default depends on the current directory."""
    return f"sqlite:///{root.resolve() / 'mlflow.db'}"


def for_child(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment for a child: its `python` is ours, output unbuffered, telemetry off, plus `extra`."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))
    return {**QUIET, **os.environ, "PATH": path, "PYTHONUNBUFFERED": "1", **(extra or {})}


def debug() -> bool:
    """Whether errors come with their traceback (RLVER_DEBUG=1, or `rlver --debug`)."""
    return os.environ.get("RLVER_DEBUG") == "1"


def set_debug() -> None:
    os.environ["RLVER_DEBUG"] = "1"


def _dotenv(path: Path) -> dict[str, str]:
    """NAME=value lines; blank lines and `#` lines are skipped, one pair of quotes around the value is taken off."""
    if not path.is_file():
        return {}
    values = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        name, separator, value = line.strip().removeprefix("export ").partition("=")
        if separator and not name.startswith("#"):
            value = value.strip()
            values[name.strip()] = value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'" else value
    return {name: value for name, value in values.items() if value}
