"""The deployments of prefect.yaml, served from this folder, and the event that starts one of them.

prefect.yaml is the only place that knows a schedule or a trigger; this module reads it, so that serving and `prefect deploy` agree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

from prefect import get_client, serve
from prefect.automations import AutomationCore
from prefect.client.schemas.objects import StateType
from prefect.client.schemas.schedules import construct_schedule
from prefect.deployments.runner import EntrypointType, RunnerDeployment
from prefect.events import DeploymentEventTrigger
from prefect.events.actions import ChangeFlowRunState
from prefect.events.schemas.automations import EventTrigger, Posture, ResourceSpecification

from rlver.components.domain.files import read_yaml
from rlver.flows.evaluate import evaluate
from rlver.flows.promote import promote
from rlver.flows.reproduce import reproduce
from rlver.flows.slots import prepare_slots
from rlver.flows.sweep import sweep
from rlver.tasks.graph import dvc, experiments
from rlver.tasks.runtime import environment, servers
from rlver.tasks.runtime.environment import shown

LANDED = "rlver.personas.landed"
PERSONAS = "rlver.personas"
FLOWS = {f"rlver.flows.{flow.name}.{flow.name}": flow for flow in (reproduce, sweep, evaluate, promote)}
HEARTBEAT_S = int(environment.QUIET["PREFECT_FLOWS_HEARTBEAT_FREQUENCY"])
SILENT_HEARTBEATS = 5  # so many in a row, and the run counts as crashed: fewer were seen to end healthy runs of a busy machine
ZOMBIES = "rlver: runs without a heartbeat have crashed"


class ServerUnreachable(RuntimeError):
    """No Prefect server answers at the address that is set."""


def deployments(root: Path) -> list[RunnerDeployment]:
    """The deployments that prefect.yaml describes. Their forms offer the variants, stages and sweeps that there are now."""
    offered = _choices(root)
    return [_deployment(entry, offered) for entry in read_yaml(root / "prefect.yaml")["deployments"]]


def serve_deployments(root: Path) -> None:
    """Serve them until Ctrl-C, one run at a time: two pipelines in one folder would wait for each other's files. Raises ServerFailed."""
    api_url = environment.addresses(root).prefect_api_url
    servers.must_let_us_in(api_url)
    prepare_slots(api_url)
    detect_zombies()
    serve(*deployments(root), limit=1, pause_on_shutdown=False)


def detect_zombies(silent_s: float = HEARTBEAT_S * SILENT_HEARTBEATS) -> None:
    """Have the server call a run crashed that has sent no heartbeat for `silent_s` seconds; Prefect itself acts on none."""
    ends = {f"prefect.flow-run.{state}" for state in ("Completed", "Failed", "Cancelled", "Crashed")}
    automation = AutomationCore(
        name=ZOMBIES,
        description="A flow run whose process was killed would be shown as running for ever.",
        trigger=EventTrigger(
            after={"prefect.flow-run.heartbeat"},
            expect={"prefect.flow-run.heartbeat", *ends},
            match=ResourceSpecification({"prefect.resource.id": ["prefect.flow-run.*"]}),
            for_each={"prefect.resource.id"},
            posture=Posture.Proactive,
            threshold=1,
            within=timedelta(seconds=silent_s),
        ),
        actions=[
            ChangeFlowRunState(
                state=StateType.CRASHED, name=None, force=False, message="no heartbeat: the process has ended without a word"
            )
        ],
    )
    with get_client(sync_client=True) as client:
        for known in client.read_automations_by_name(ZOMBIES):
            client.delete_automation(known.id)
        client.create_automation(automation)


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


def _choices(root: Path) -> dict[str, list[str]]:
    """What can be chosen, by the name of the parameter."""
    steps = dvc.plan(root, all_pipelines=True)
    return {
        "variants": ["all", *sorted({step.variant for step in steps if step.variant})],
        "only": sorted({name for step in steps for name in (step.group, step.name)}),
        "variant": sorted(step.variant for step in steps if step.group == "train" and step.pipeline == dvc.PIPELINE and step.variant),
        "name": experiments.names(root),
    }


def _deployment(entry: Mapping[str, Any], offered: Mapping[str, Sequence[str]]) -> RunnerDeployment:
    schedules = [construct_schedule(cron=item["cron"], timezone=item.get("timezone")) for item in entry.get("schedules", ())]
    deployment = FLOWS[entry["entrypoint"]].to_deployment(
        name=entry["name"],
        description=entry.get("description"),
        schedules=schedules or None,
        triggers=[DeploymentEventTrigger.model_validate(trigger) for trigger in entry.get("triggers", ())],
        parameters=dict(entry.get("parameters", {})),
        concurrency_limit=entry.get("concurrency_limit"),
        entrypoint_type=EntrypointType.MODULE_PATH,
    )
    assert isinstance(deployment, RunnerDeployment)  # a coroutine only inside an event loop
    for name, field in deployment._parameter_openapi_schema.properties.items():
        if choices := offered.get(name):
            _offer(field, list(choices))
    return deployment


def _offer(field: dict[str, Any], choices: list[str]) -> None:
    """Add the choices to a field of a form, or to the items of a list; the server refuses anything else before a run starts."""
    for part in (field, *field.get("anyOf", ())):
        if part.get("type") == "string":
            part["enum"] = choices
        elif part.get("type") == "array":
            part["items"]["enum"] = choices
