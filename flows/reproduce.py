"""The flow `reproduce`: DVC's own plan, one task run per stage, with retries, live logs, artifacts and provenance.

Prefect's caching is off everywhere: DVC alone says what is up to date, and its answer is shown as the state `Cached`. A stage that fails
or is cancelled is a returned state, not an exception, so that a foreseeable failure is one line and not a traceback.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    need. `personas_md5`: the announced persona file; the run fails unless params.yaml imports the very file with that MD5.
    """
    root = environment.project_root()
    where = environment.prepare(root)
    logger = get_run_logger()
    try:
        if personas_md5:
            dvc.require_import(root, personas_md5)
        steps = dvc.plan(root)
        chosen = dvc.select(steps, only, variants)
        reasons = dvc.changed(root)
    except dvc.GraphError as error:
        return Failed(message=str(error))
    for warning in _stale_needs(chosen, reasons):
        logger.warning(warning)

    context = FlowRunContext.get()
    flow_run = str(context.flow_run.id) if context and context.flow_run else None
    ran: list[str] = []
    with Provenance(root, where, flow_run, logger) as provenance:
        for step in chosen:
            run = bring_up_to_date.with_options(name=step.name, task_run_name=step.name)
            state: State[Any] = run(root, step.name, reasons.get(step.name, []), return_state=True)
            if not state.is_completed():
                provenance.failed()
                return Failed(message=state.message or f"{step.name}: {state.name}")
            if state.name == "Cached":
                logger.info("%s: up to date%s", step.name, provenance.of_cached(step.name))
            else:
                ran.append(step.name)
                provenance.of_run(step.name)
            if reasons.get(step.name):
                reasons = dvc.changed(root)
    _publish(root)
    return Completed(message=f"{len(ran)} of {len(chosen)} stages ran" + (f": {', '.join(ran)}" if ran else ", the others are up to date"))


def _stale_needs(chosen: Sequence[dvc.Stage], reasons: dict[str, list[str]]) -> list[str]:
    names = {step.name for step in chosen}
    stale = sorted({need for step in chosen for need in step.needs if need in reasons} - names)
    return [f"not selected, but out of date: {', '.join(stale)}"] if stale else []


def _publish(root: Path) -> None:
    """The table of results and the link to the report, as artifacts of the flow run."""
    if text := results.markdown(root):
        create_markdown_artifact(text, key="results", description="Results of all variants that were scored")
    if page := results.report(root):
        create_link_artifact(page.as_uri(), link_text="reports/index.html", key="report", description="The report")
