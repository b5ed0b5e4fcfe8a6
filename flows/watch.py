"""What the server itself does about our runs, as automations: one that fell silent has crashed; a failure is told to whom it concerns.

They match what is tagged `rlver`, as every deployment of prefect.yaml and every run of `rlver` is, and leave other runs of the server alone.
"""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from prefect import get_client
from prefect.automations import AutomationCore
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.objects import StateType
from prefect.events.actions import ChangeFlowRunState, SendNotification
from prefect.events.schemas.automations import EventTrigger, Posture, ResourceSpecification

from rlver.tasks.runtime import environment

TAG = "rlver"
BLOCK = "rlver-failures"
HEARTBEAT_S = int(environment.QUIET["PREFECT_FLOWS_HEARTBEAT_FREQUENCY"])
SILENT_HEARTBEATS = 5  # so many in a row, and the run counts as crashed: fewer were seen to end healthy runs of a busy machine
RUNS = ResourceSpecification({"prefect.resource.id": ["prefect.flow-run.*"]})
OURS = ResourceSpecification({"prefect.resource.role": "tag", "prefect.resource.id": f"prefect.tag.{TAG}"})


def watch(silent_s: float = HEARTBEAT_S * SILENT_HEARTBEATS) -> None:
    """Make the automations, in the place of those that an earlier call made. Without a notification block `rlver-failures`, of whatever
    kind (Slack, e-mail, a webhook), nobody is told."""
    with get_client(sync_client=True) as client:
        block = _notification_block(client)
        wanted = [zombies(silent_s), *([failures(block)] if block else [])]
        for name in (ZOMBIES, FAILURES):
            for known in client.read_automations_by_name(name):
                client.delete_automation(known.id)
        for automation in wanted:
            client.create_automation(automation)


ZOMBIES = "rlver: runs without a heartbeat have crashed"
FAILURES = "rlver: tell of failures"


def zombies(silent_s: float) -> AutomationCore:
    """A run that has sent a heartbeat and then nothing at all, neither that it ended nor that it waits. Prefect itself acts on none."""
    return AutomationCore(
        name=ZOMBIES,
        description="A flow run whose process was killed would be shown as running for ever.",
        trigger=EventTrigger(
            after={"prefect.flow-run.heartbeat"},
            expect={"prefect.flow-run.*"},  # a state has the name that we gave it: Declined, Suspended
            match=RUNS,
            match_related=OURS,
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


def failures(block: UUID) -> AutomationCore:
    """A run that failed, was refused by the gate or crashed is told through the notification block of this id."""
    return AutomationCore(
        name=FAILURES,
        description=f"Through the notification block {BLOCK}.",
        trigger=EventTrigger(
            expect={f"prefect.flow-run.{state}" for state in ("Failed", "Crashed", "TimedOut", "Refused")},
            match=RUNS,
            match_related=OURS,
            for_each={"prefect.resource.id"},
            posture=Posture.Reactive,
            threshold=1,
            within=timedelta(0),
        ),
        actions=[
            SendNotification(
                block_document_id=block,
                subject="rlver: {{ flow.name }} {{ flow_run.state.name }}",
                body="{{ flow_run.name }}: {{ flow_run.state.message }}\n{{ flow_run|ui_url }}",
            )
        ],
    )


def _notification_block(client: SyncPrefectClient) -> UUID | None:
    """The id of the block of this name that can notify."""
    body = {"block_schemas": {"block_capabilities": {"all_": ["notify"]}}, "block_documents": {"name": {"any_": [BLOCK]}}}
    found = client.request("POST", "/block_documents/filter", json=body).raise_for_status().json()
    return UUID(found[0]["id"]) if found else None
