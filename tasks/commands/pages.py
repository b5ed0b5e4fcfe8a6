"""Where on the pages of MLflow and Prefect the project's own things are: what `rlver ui` prints below the addresses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx

from rlver.tasks.runtime import environment
from rlver.tasks.runtime.environment import Addresses
from rlver.tasks.runtime.kept_secrets import find_key

TIMEOUT_S = 20.0


def deep_links(where: Addresses, started: Mapping[str, str]) -> list[tuple[str, str]]:
    """Name and address of the comparison of runs, of the dialogues and of the last flow run; only of what there is.

    `started`: the addresses of the servers that were started here, by `mlflow` and `prefect`; the others are where `where` says. A server
    that does not answer gives no links.
    """
    links: list[tuple[str, str]] = []
    mlflow = started.get("mlflow") or where.tracking_uri.rstrip("/")
    found = _ask("GET", f"{mlflow}/api/2.0/mlflow/experiments/get-by-name", params={"experiment_name": environment.experiment()})
    if found:
        experiment = f"{environment.shown(mlflow)}/#/experiments/{found['experiment']['experiment_id']}"
        links += [("comparison", f"{experiment}/runs?compareRunsMode=CHART"), ("dialogues", f"{experiment}/chat-sessions")]
    prefect = started.get("prefect") or (where.prefect_api_url or "").removesuffix("/api")
    key = find_key(where.prefect_home, prefect) if "prefect" in started else None
    auth = httpx.BasicAuth(*key.split(":", 1)) if key else None
    last = {"limit": 1, "sort": "START_TIME_DESC", "flow_runs": {"start_time": {"is_null_": False}}}
    headers = {} if auth else environment.prefect_headers()
    if runs := _ask("POST", f"{prefect}/api/flow_runs/filter", json=last, auth=auth, headers=headers):
        links.append(("last run", f"{environment.shown(prefect)}/v2/runs/flow-run/{runs[0]['id']}"))
    return links


def _ask(method: str, url: str, **options: Any) -> Any:
    """What the server answers, or None."""
    try:
        answer = httpx.request(method, url, timeout=TIMEOUT_S, trust_env=False, **options)
        return answer.json() if answer.is_success else None
    except (httpx.HTTPError, httpx.InvalidURL, ValueError):
        return None
