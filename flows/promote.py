"""The flow `promote`: the gate, a person's approval if wanted, and the move of the alias `champion`, which rolls back if it fails.

A run of a deployment that waits for a person is suspended: its process ends, and the answer starts the flow from its top in another one.
Nothing is kept from before: the gate judges again, because three days later it may have to judge something else. The question's key is
made of what the person saw, so an answer counts only for the very table that stands above it; a changed one is asked about anew.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated

from prefect import State, flow, get_run_logger, task
from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE
from prefect.exceptions import FlowPauseTimeout
from prefect.flow_runs import pause_flow_run, suspend_flow_run
from prefect.input import RunInput
from prefect.runtime import deployment
from prefect.states import Completed, Failed
from prefect.transactions import Transaction, get_transaction, transaction
from pydantic import Field

from rlver.components.domain.files import BadFile
from rlver.components.settings.settings import SettingsError
from rlver.flows.choices import OneOf
from rlver.tasks.graph import dvc
from rlver.tasks.runtime import environment
from rlver.tasks.tracking import registry as promotion
from rlver.tasks.tracking.promotion import Condition, conditions, table
from rlver.tasks.tracking.registry import Candidate, ModelRegistry, RegistryError, Version
from rlver.tasks.tracking.store import TrackingUnavailable

APPROVAL_HOURS = 72


class Approval(RunInput):
    """The form of a run that waits."""

    promote: bool = Field(description="Make it the champion?")
    reason: str = Field(default="", description="Kept with the version.")


@flow(name="promote", validate_parameters=True, persist_result=False)
def promote(variant: Annotated[str, OneOf("trained")], approval: bool = False, only_judge: bool = False) -> State[str]:
    """Make a variant the champion if the gate lets it through.

    Args:
        variant: A trained variant whose stages are up to date.
        approval: Wait for a person, who sees the gate's table in the form of the run.
        only_judge: Say what the gate says and change nothing.
    """
    root, where = environment.opened()
    registry = ModelRegistry(where.tracking_uri)
    try:
        return _promote(root, registry, variant, approval, only_judge)
    except (promotion.NotReady, dvc.GraphError, RegistryError, TrackingUnavailable, SettingsError, BadFile) as error:
        return Failed(message=str(error))


def _promote(root: Path, registry: ModelRegistry, variant: str, approval: bool, only_judge: bool) -> State[str]:
    candidate = promotion.candidate(root, variant)
    champion = registry.champion()
    if champion and champion.md5 == candidate.md5:
        return Completed(name="Unchanged", message=f"{variant} is the champion already: {champion}")
    base = promotion.evidence_of(root, promotion.BASE)
    found = conditions(candidate.evidence, registry.evidence(champion) if champion else base, base, candidate.gate_rules())
    judged = f"{variant} against {champion or 'the base, as there is no champion'}\n\n{table(found)}"
    create_markdown_artifact(judged, key="promotion", description="The gate's conditions")
    get_run_logger().info("%s", judged)
    if unmet := [condition for condition in found if not condition.met]:
        return Failed(name="Refused", message="; ".join(f"{condition.name}: {condition.finding}" for condition in unmet))
    if only_judge:
        return Completed(name="Judged", message=f"{variant} may be promoted")
    approved = ""
    if approval:
        try:
            answer = _ask(judged, f"{candidate.md5}{judged}")
        except FlowPauseTimeout:
            unanswered = f"nobody filled in the form within {APPROVAL_HOURS} hours"
            get_run_logger().error(unanswered)  # said here: Prefect's server puts a message of its own in the place of the state's
            return Failed(message=unanswered)
        if not answer.promote:
            return Completed(name="Declined", message=f"{variant} was not approved: {answer.reason or 'no reason given'}")
        approved = answer.reason or "without a reason"
        if registry.champion() != champion:
            return Failed(message="the champion has changed while this waited for an answer; promote again to be compared with the new one")
    with transaction():  # registered and crowned, both or neither
        version = register(registry, candidate, found, approved, champion)
        crown(registry, version, champion)
    return Completed(message=f"{version} is the champion" + (f", before it {champion}" if champion else ""))


def _ask(judged: str, identity: str) -> Approval:
    """What a person has filled in. A run of a deployment is suspended until then; one from a terminal waits in its own process."""
    wait = suspend_flow_run if deployment.id else pause_flow_run
    form = Approval.with_initial_data(description=judged, promote=False)
    return wait(form, timeout=APPROVAL_HOURS * 3600, key=hashlib.sha256(identity.encode()).hexdigest()[:16])


@task(cache_policy=NO_CACHE, persist_result=False)
def register(registry: ModelRegistry, candidate: Candidate, found: tuple[Condition, ...], approved: str, over: Version | None) -> Version:
    """A new version, with its card and the evidence for it."""
    tags = {**candidate.tags, **({"approved": approved} if approved else {})}
    version = registry.register(candidate.variant, candidate.md5, candidate.card(found), candidate.texts, tags)
    if made := get_transaction():
        made.set("undo", lambda: registry.withdraw(version, over))
    return version


@register.on_rollback
def _withdraw(made: Transaction) -> None:
    made.get("undo")()


@task(cache_policy=NO_CACHE, persist_result=False)
def crown(registry: ModelRegistry, version: Version, over: Version | None) -> None:
    """The alias moves, in one write."""
    registry.crown(version, over)
