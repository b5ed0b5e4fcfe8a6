"""The flow `reproduce`: DVC's own plan, one task run per stage, with retries, live logs, artifacts and provenance.

Prefect's caching is off everywhere: DVC alone says what is up to date, and its answer is shown as the state `Cached`.
"""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from typing import Annotated

from prefect import State, flow, get_run_logger
from prefect.artifacts import create_markdown_artifact
from prefect.context import FlowRunContext
from prefect.states import Completed, Failed
from pydantic import Field

from rlver.components.domain.files import BadFile
from rlver.components.settings.settings import SettingsError
from rlver.flows.choices import OneOf
from rlver.flows.slots import prepare_slots
from rlver.flows.walk import Sharing, Walk, Walked
from rlver.tasks.graph import dvc, pipelines, selection
from rlver.tasks.graph.estimates import refuse_impossible
from rlver.tasks.runtime import environment
from rlver.tasks.tracking import results
from rlver.tasks.tracking.provenance import Provenance

CURVE = "plots/learning-curve.png"


@flow(name="reproduce", validate_parameters=True, persist_result=False, log_prints=False)
def reproduce(
    only: list[Annotated[str, OneOf("stages")]] | None = None,
    variants: list[Annotated[str, OneOf("variants")]] | None = None,
    personas_md5: str | None = None,
    jobs: Annotated[int, Field(ge=1)] = 1,
    stage_hours: Annotated[float | None, Field(gt=0)] = None,
) -> State[str]:
    """Bring the project's stages up to date, each after what it needs.

    Args:
        only: Stages (`train@grpo-think`) or groups (`train`): exactly these.
        variants: The stages of these variants and what they need, from every pipeline. `all`: every stage of every pipeline; a failure
            then ends only what needs it.
        personas_md5: MD5 of an announced persona file; the run fails unless params.yaml imports that very file.
        jobs: How many stages that do not need each other run side by side, sharing the cores.
        stage_hours: A stage that takes longer is stopped; the next run goes on from there.
    """
    root, where = environment.opened()
    logger = get_run_logger()
    keep_going = selection.ALL in (variants or ())
    try:
        if personas_md5:
            dvc.require_import(root, personas_md5)
        if variants:
            pipelines.renew(root)
        plan = dvc.plan(root, all_pipelines=bool(variants))
        chosen = selection.select(plan, only, variants)
        results.known_failures(root)  # a damaged file is told before anything runs
        if keep_going:
            results.write_failures(root, {}, [step.name for step in chosen])
        if variants:
            pipelines.renew(root, (step.name for step in chosen))
        reasons = dvc.changed(root, selection.with_needs(chosen))
        refuse_impossible(root, (step for step in chosen if step.name in reasons), plan)
        pipelines.ask_for(root, (step.name for step in chosen))
    except (dvc.GraphError, SettingsError, BadFile) as error:
        return Failed(message=str(error))
    if stale := sorted({need for step in chosen for need in step.needs if need in reasons} - {step.name for step in chosen}):
        logger.warning("not selected, but out of date: %s", ", ".join(stale))

    context = FlowRunContext.get()
    flow_run = str(context.flow_run.id) if context and context.flow_run else None
    with Provenance(root, where.tracking_uri, flow_run, logger) as provenance:
        sharing = Sharing(jobs, prepare_slots(where.prefect_api_url), stage_hours)
        walked = Walk(root, chosen, reasons, sharing, keep_going, provenance).take()
    if walked.failed and not keep_going:
        return Failed(message="; ".join(walked.failed.values()))
    try:
        _publish(root)
    except BadFile as error:  # what the stages made is good all the same
        logger.warning("the results are not shown in Prefect: %s", error)
    return _outcome(walked, len(chosen))


def _outcome(walked: Walked, stages: int) -> State[str]:
    ran = f"{len(walked.ran)} of {stages} stages ran"
    if walked.failed:
        blocked = f"; {len(walked.blocked)} could not run without what they make" if walked.blocked else ""
        return Failed(message=f"{len(walked.failed)} of {stages} stages failed: {'; '.join(walked.failed.values())}{blocked}; {ran}")
    return Completed(message=f"{ran}: {', '.join(walked.ran)}" if walked.ran else f"{ran}, the others are up to date")


def _publish(root: Path) -> None:
    """The table of results, and each report that there is, as artifacts of the flow run."""
    if text := results.table(root):
        create_markdown_artifact(text, key="results", description="Results of all variants that were scored")
    for key, page in results.reports(root).items():
        place = page.relative_to(root)
        create_markdown_artifact(_report(page), key=key, description=f"The report; the whole of it is {place} in the project's folder")


def _report(page: Path) -> str:
    """The learning curve and the tables beside the report's page, as Markdown that contains the image: browsers block `file://` links."""
    curve, tables = page.parent / CURVE, page.with_name("results.md")
    image = f"![learning curve](data:image/png;base64,{b64encode(curve.read_bytes()).decode()})\n\n" if curve.is_file() else ""
    return image + (tables.read_text(encoding="utf-8") if tables.is_file() else f"There are no tables beside {page.name}.")
