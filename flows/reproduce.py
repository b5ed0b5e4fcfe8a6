"""The flow `reproduce`: DVC's own plan, one task run per stage, with retries, live logs, artifacts and provenance.

Prefect's caching is off everywhere: DVC alone says what is up to date, and its answer is shown as the state `Cached`. A stage that fails
or is cancelled is a returned state, not an exception, so that a foreseeable failure is one line and not a traceback.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prefect import State, flow, get_run_logger, task
from prefect.artifacts import create_link_artifact, create_markdown_artifact
from prefect.cache_policies import NO_CACHE
from prefect.context import FlowRunContext
from prefect.states import Completed, Failed

from flows.record import Provenance
from tasks import dvc, environment, results

TEMPORARY = "TemporaryFailure"
RETRY_DELAYS_S = [5.0, 60.0]


def _worth_a_retry(_task: object, _task_run: object, state: State[Any]) -> bool:
    """Only what the world broke (killed, unreachable, another DVC at work): the same input fails the same way again."""
    return state.name == TEMPORARY


@task(
    cache_policy=NO_CACHE,
    persist_result=False,
    retries=len(RETRY_DELAYS_S),
    retry_delay_seconds=RETRY_DELAYS_S,
    retry_condition_fn=_worth_a_retry,
)
def bring_up_to_date(root: Path, stage: str, reasons: Sequence[str]) -> State[str]:
    """Run one stage if DVC has a reason to."""
    logger = get_run_logger()
    if not reasons:
        return Completed(name="Cached", message="nothing that this stage depends on has changed")
    logger.info("%s", "; ".join(reasons[:3]) + (f"; and {len(reasons) - 3} more" if len(reasons) > 3 else ""))
    try:
        outcome = dvc.reproduce(root, stage, logger.info)
    except dvc.StageFailed as failure:
        return Failed(name=TEMPORARY if failure.temporary else "Failed", message=str(failure))
    if outcome == "restored":
        return Completed(name="Cached", message="an earlier run with the same inputs was restored from DVC's cache")
    return Completed(name="Completed" if outcome == "ran" else "Cached", message=outcome)


@flow(name="reproduce", validate_parameters=True, persist_result=False, log_prints=False)
def reproduce(only: list[str] | None = None, variants: list[str] | None = None, personas_md5: str | None = None) -> State[str]:
    """Bring the project's stages up to date, in DVC's order.

    `only`: stage names (`train@grpo-think`) or groups (`train`); exactly these. `variants`: the stages of these variants and what they
    need, from every pipeline; `all`: every stage of every pipeline, and a failure ends only what needs it. `personas_md5`: the announced
    persona file; the run fails unless params.yaml imports the very file with that MD5.
    """
    root = environment.project_root()
    where = environment.prepare(root)
    logger = get_run_logger()
    keep_going = dvc.ALL in (variants or ())
    try:
        if personas_md5:
            dvc.require_import(root, personas_md5)
        chosen = dvc.select(dvc.plan(root, all_pipelines=bool(variants)), only, variants)
        concerned = dvc.with_needs(chosen)
        if keep_going:
            results.write_failures(root, {})
        reasons = dvc.changed(root, concerned)
    except dvc.GraphError as error:
        return Failed(message=str(error))
    for warning in _stale_needs(chosen, reasons):
        logger.warning(warning)

    context = FlowRunContext.get()
    flow_run = str(context.flow_run.id) if context and context.flow_run else None
    with Provenance(root, where, flow_run, logger) as provenance:
        walked = _walk(root, chosen, concerned, reasons, keep_going, provenance)
    if walked.failed and not keep_going:
        return Failed(message="; ".join(walked.failed.values()))
    _publish(root)
    return _outcome(walked, len(chosen))


@dataclass
class Walked:
    """What came of the stages: those that ran, those that failed and why, those that could not run because of it."""

    ran: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    blocked: list[str] = field(default_factory=list)


def _walk(
    root: Path,
    chosen: Sequence[dvc.Stage],
    concerned: Sequence[str],
    reasons: dict[str, list[str]],
    keep_going: bool,
    provenance: Provenance,
) -> Walked:
    """Take the stages in order. A failed stage has no outputs any more: `keep_going` leaves out what needs them and takes the rest."""
    logger, walked = get_run_logger(), Walked()
    for step in chosen:
        if walked.failed and (absent := [path for path in step.reads if not (root / path).exists()]):
            logger.warning("%s: not run, because there is no %s", step.name, ", ".join(absent))
            walked.blocked.append(step.name)
            continue
        run = bring_up_to_date.with_options(name=step.name, task_run_name=step.name)
        state: State[Any] = run(root, step.name, reasons.get(step.name, []), return_state=True)
        if not state.is_completed():
            provenance.failed()
            walked.failed[step.name] = state.message or f"{step.name}: {state.name}"
            if not keep_going:
                break
            results.write_failures(root, walked.failed)
        elif state.name == "Cached":
            logger.info("%s: up to date%s", step.name, provenance.of_cached(step.name))
        else:
            walked.ran.append(step.name)
            provenance.of_run(step.name)
        if reasons.get(step.name):
            reasons = dvc.changed(root, concerned)
    return walked


def _outcome(walked: Walked, stages: int) -> State[str]:
    ran = f"{len(walked.ran)} of {stages} stages ran"
    if walked.failed:
        blocked = f"; {len(walked.blocked)} could not run without what they make" if walked.blocked else ""
        return Failed(message=f"{len(walked.failed)} of {stages} stages failed: {'; '.join(walked.failed.values())}{blocked}; {ran}")
    return Completed(message=f"{ran}: {', '.join(walked.ran)}" if walked.ran else f"{ran}, the others are up to date")


def _stale_needs(chosen: Sequence[dvc.Stage], reasons: dict[str, list[str]]) -> list[str]:
    names = {step.name for step in chosen}
    stale = sorted({need for step in chosen for need in step.needs if need in reasons} - names)
    return [f"not selected, but out of date: {', '.join(stale)}"] if stale else []


def _publish(root: Path) -> None:
    """The table of results and the link to the report, as artifacts of the flow run."""
    if text := results.markdown(root):
        create_markdown_artifact(text, key="results", description="Results of all variants that were scored")
    for key, page in results.reports(root).items():
        create_link_artifact(page.as_uri(), link_text=str(page.relative_to(root)), key=key, description="The report")
