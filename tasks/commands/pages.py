"""Where on the pages of MLflow and Prefect the project's own things are: what `rlver ui` prints below the addresses."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import httpx

from rlver.tasks.runtime import environment
from rlver.tasks.runtime.environment import Addresses
from rlver.tasks.runtime.kept_secrets import find_key

TIMEOUT_S = 20.0
MOST_RUNS = 1000
CHARTS = ("emotion_mean", "success_rate", "failure_rate")  # that the comparison opens with; by the first one runs are sorted
VIEW = "rlver"


def deep_links(where: Addresses, started: Mapping[str, str]) -> list[tuple[str, str]]:
    """Name and address of the comparison of runs, of the dialogues and of the last flow run; only of what there is.

    `started`: the addresses of the servers that were started here, by `mlflow` and `prefect`; the others are where `where` says. A server
    that does not answer gives no links.
    """
    links: list[tuple[str, str]] = []
    mlflow = started.get("mlflow") or where.tracking_uri.rstrip("/")
    found = _ask("GET", f"{mlflow}/api/2.0/mlflow/experiments/get-by-name", params={"experiment_name": environment.experiment()})
    if found:
        number = found["experiment"]["experiment_id"]
        experiment = f"{environment.shown(mlflow)}/#/experiments/{number}"
        links += [("comparison", _comparison(mlflow, number) or f"{experiment}/runs?compareRunsMode=CHART")]
        links += [("dialogues", f"{experiment}/traces?groupBy=session")]
    prefect = started.get("prefect") or (where.prefect_api_url or "").removesuffix("/api")
    key = find_key(where.prefect_home, prefect) if "prefect" in started else None
    auth = httpx.BasicAuth(*key.split(":", 1)) if key else None
    last = {"limit": 1, "sort": "START_TIME_DESC", "flow_runs": {"start_time": {"is_null_": False}}}
    headers = {} if auth else environment.prefect_headers()
    if runs := _ask("POST", f"{prefect}/api/flow_runs/filter", json=last, auth=auth, headers=headers):
        links.append(("last run", f"{environment.shown(prefect)}/v2/runs/flow-run/{runs[0]['id']}"))
    return links


def _comparison(mlflow: str, experiment: str) -> str | None:
    """The page that sets the newest scores of each variant side by side; None where there are fewer than two.

    MLflow's own page of compared runs draws the first metric of the alphabet, and no address tells it another. That of an experiment takes
    its runs and charts from a *shared view*, which is a tag of the experiment; so None too from a server that lets nobody write.
    """
    scored = {
        "experiment_ids": [experiment],
        "filter": "tags.stage_group LIKE 'score%' and attributes.status = 'FINISHED'",
        "order_by": ["start_time DESC"],
        "max_results": MOST_RUNS,
    }
    runs = (_ask("POST", f"{mlflow}/api/2.0/mlflow/runs/search", json=scored) or {}).get("runs", [])
    newest: dict[tuple[str, str], str] = {}
    for run in runs:
        tags = {tag["key"]: tag["value"] for tag in run["data"].get("tags", [])}
        if "variant" in tags:
            newest.setdefault((tags.get("stage_group", ""), tags["variant"]), run["info"]["run_id"])
    if len(newest) < 2:
        return None
    ids = ", ".join(f"'{run}'" for run in newest.values())
    view = {"searchFilter": f"attributes.run_id IN ({ids})", "orderByKey": f"metrics.`{CHARTS[0]}`", "orderByAsc": False}
    view |= {"chartsSearchFilter": f"^({'|'.join(CHARTS)})$", "runsHiddenMode": "SHOW_ALL"}
    tag = {"experiment_id": experiment, "key": f"mlflow.sharedViewState.{VIEW}", "value": json.dumps(view)}
    if _ask("POST", f"{mlflow}/api/2.0/mlflow/experiments/set-experiment-tag", json=tag) is None:
        return None
    return f"{environment.shown(mlflow)}/#/experiments/{experiment}/runs?compareRunsMode=CHART&viewStateShareKey={VIEW}"


def _ask(method: str, url: str, **options: Any) -> Any:
    """What the server answers, or None."""
    try:
        answer = httpx.request(method, url, timeout=TIMEOUT_S, trust_env=False, **options)
        return answer.json() if answer.is_success else None
    except (httpx.HTTPError, httpx.InvalidURL, ValueError):
        return None
