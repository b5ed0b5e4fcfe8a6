"""The deployments of prefect.yaml, served from this folder, and the event that starts one of them.

prefect.yaml is the only place that knows a schedule or a trigger; this module reads it, so that serving and `prefect deploy` agree.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

from prefect import get_client, serve
from prefect.client.schemas.actions import VariableCreate, VariableUpdate
from prefect.deployments.runner import EntrypointType, RunnerDeployment
from prefect.events import DeploymentEventTrigger
from prefect.schedules import Schedule

from rlver.components.domain.files import BadFile, read_yaml, write_bytes_atomically
from rlver.flows.choices import offer
from rlver.flows.evaluate import evaluate
from rlver.flows.promote import promote
from rlver.flows.reproduce import reproduce
from rlver.flows.slots import prepare_slots
from rlver.flows.sweep import sweep
from rlver.flows.watch import watch
from rlver.tasks.graph import dvc
from rlver.tasks.runtime import environment, servers
from rlver.tasks.runtime.environment import shown

LANDED = "rlver.personas.landed"
PERSONAS = "rlver.personas"
PROJECT = "rlver_project"  # the server's variable: whose deployments it has
OWN_ID = Path(".prefect") / "project"
FLOWS = {flow.name: flow for flow in (reproduce, sweep, evaluate, promote)}


class ServerUnreachable(RuntimeError):
    """No Prefect server answers at the address that is set."""


def deployments(root: Path) -> list[RunnerDeployment]:
    """The deployments that prefect.yaml describes. Their forms offer the variants, stages and sweeps that there are now."""
    offer(root)
    return [_deployment(entry) for entry in read_yaml(root / "prefect.yaml")["deployments"]]


def serve_deployments(root: Path) -> None:
    """Serve them until Ctrl-C, one run at a time: two pipelines in one folder would wait for each other's files. Raises ServerFailed."""
    api_url = environment.addresses(root).prefect_api_url
    servers.must_let_us_in(api_url)
    claim(root)
    prepare_slots(api_url)
    watch()
    serve(*deployments(root), limit=1, pause_on_shutdown=False)


def _holds(file: Path, content: str) -> bool:
    return file.is_file() and file.read_text(encoding="utf-8").strip() == content


def claim(root: Path) -> None:
    """Deployments are known by their names, so a server has those of one project: else two would run each other's. Raises ServerFailed."""
    file = root / OWN_ID
    if not file.is_file():
        file.parent.mkdir(exist_ok=True)
        write_bytes_atomically(file, uuid4().hex.encode())
    own = {"id": file.read_text(encoding="utf-8").strip(), "folder": str(root.resolve())}
    with get_client(sync_client=True) as client:
        known = client.read_variable_by_name(PROJECT)
        if known is None:
            client.create_variable(VariableCreate(name=PROJECT, value=own))
        elif isinstance(known.value, dict) and known.value.get("id") == own["id"]:
            if (other := str(known.value.get("folder"))) != own["folder"]:
                if _holds(Path(other) / OWN_ID, own["id"]):
                    raise servers.ServerFailed(
                        f"{shown(other)} has the same deployments at the Prefect server of {shown(str(client.api_url))}: this folder is a copy of "
                        f"it, so delete {OWN_ID} here and give it a server of its own"
                    )
                client.update_variable(VariableUpdate(name=PROJECT, value=own))  # it was moved
        else:
            raise servers.ServerFailed(
                f"the Prefect server at {shown(str(client.api_url))} has the deployments of another folder, {shown(str(known.value))}: give each "
                f"project a server of its own, or, if that one is gone, run `prefect variable delete {PROJECT}`"
            )


def personas_landed(path: Path) -> str:
    """Announce that the persona file at `path` is there; returns its MD5, which goes with the event. Raises ServerUnreachable."""
    import httpx

    md5 = dvc.md5_of(path)
    event = {
        "id": str(uuid4()),
        "occurred": datetime.now(UTC).isoformat(),
        "event": LANDED,
        "resource": {"prefect.resource.id": PERSONAS, "prefect.resource.name": path.name},
        "payload": {"md5": md5, "file": path.name},
    }
    with get_client(sync_client=True) as client:
        try:
            client.request("POST", "/events", json=[event]).raise_for_status()
        except httpx.HTTPError as error:
            raise ServerUnreachable(
                f"the Prefect server at {shown(str(client.api_url))} did not take the event: {shown(str(error))}"
            ) from error
    return md5


def _deployment(entry: Mapping[str, Any]) -> RunnerDeployment:
    """Raises BadFile for what cannot be served."""
    entrypoint = str(entry.get("entrypoint"))
    flow = FLOWS.get(entrypoint.rpartition(".")[2]) if entrypoint.startswith("rlver.flows.") else None
    if flow is None:
        raise BadFile(
            f"prefect.yaml: deployment {entry['name']}: {entrypoint} cannot be served here, only rlver.flows.deployed.… with one of "
            f"{', '.join(FLOWS)}; put it into a file of its own and run `prefect deploy --prefect-file FILE`"
        )
    deployment = flow.to_deployment(
        name=entry["name"],
        tags=entry.get("tags"),
        description=entry.get("description"),
        schedules=[_schedule(entry["name"], item) for item in entry.get("schedules") or ()] or None,
        paused=entry.get("paused"),
        triggers=[DeploymentEventTrigger.model_validate(trigger) for trigger in entry.get("triggers") or ()],
        parameters=dict(entry.get("parameters") or {}),
        concurrency_limit=entry.get("concurrency_limit"),
        entrypoint_type=EntrypointType.MODULE_PATH,
    )
    assert isinstance(deployment, RunnerDeployment)  # a coroutine only inside an event loop
    deployment.entrypoint = entrypoint
    return deployment


def _schedule(deployment: str, item: Mapping[str, Any]) -> Schedule:
    """As `prefect deploy` reads it: an interval is in seconds. Raises BadFile."""
    parts = dict(item)
    try:
        if "interval" in parts:
            parts["interval"] = timedelta(seconds=parts["interval"])
        if isinstance(parts.get("anchor_date"), str):
            parts["anchor_date"] = datetime.fromisoformat(parts["anchor_date"])
        return Schedule(**parts)
    except (TypeError, ValueError) as error:
        raise BadFile(f"prefect.yaml: deployment {deployment}: a schedule cannot be read: {error}") from error
