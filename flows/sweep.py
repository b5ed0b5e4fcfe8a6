"""The flow `sweep`: every combination of a table of settings as a DVC experiment, and the results side by side."""

from __future__ import annotations

from typing import Annotated

from prefect import State, flow, get_run_logger
from prefect.artifacts import create_markdown_artifact
from prefect.states import Completed, Failed

from rlver.components.domain.files import BadFile
from rlver.flows.choices import OneOf
from rlver.flows.slots import gpu_slot, prepare_slots
from rlver.tasks.graph import experiments
from rlver.tasks.runtime import environment
from rlver.tasks.tracking.experiments import log_experiment
from rlver.tasks.tracking.store import TrackingUnavailable

NO_CHOICE = (
    "Final emotion of test personas, with 95% intervals. To choose by it is to tune on the test: choose by `logs/<variant>/evaluation.csv` of each "
    "experiment (`dvc exp apply NAME`), which is of held-out train personas."
)


@flow(name="sweep", validate_parameters=True, persist_result=False)
def sweep(name: Annotated[str, OneOf("sweeps")]) -> State[str]:
    """Run every combination of a table of settings as a DVC experiment.

    Args:
        name: The table: params/sweeps/<name>.yaml.
    """
    root, where = environment.opened()
    try:
        wanted, began_from = experiments.read_sweep(root, name), experiments.checked_out(root)
        with gpu_slot("train", prepare_slots(where.prefect_api_url)):  # one for all: DVC's queue starts the trainings, and knows no slots
            experiments.run_sweep(root, wanted, get_run_logger().info)
        found = experiments.results(root, wanted, began_from)
    except (experiments.SweepError, BadFile) as error:
        return Failed(message=str(error))
    text = f"{experiments.table(wanted, found)}\n\n{NO_CHOICE}"
    create_markdown_artifact(text, key="sweep", description=f"Results of the sweep {name}")
    get_run_logger().info("%s", text)
    for finished in (one.name for one in wanted if one.name in found):
        try:
            get_run_logger().info("%s", log_experiment(root, where.tracking_uri, finished, began_from))
        except (experiments.SweepError, TrackingUnavailable, BadFile) as error:
            get_run_logger().warning("%s: %s; `rlver mlflow sync --experiment %s` logs it later", finished, error, finished)
    if failed := [experiment.name for experiment in wanted if experiment.name not in found]:
        return Failed(message=f"{len(failed)} of {len(wanted)} experiments failed: {', '.join(failed)}; `dvc queue logs NAME` says why")
    return Completed(message=f"{len(wanted)} experiments ran; `dvc exp show` compares them, `dvc exp apply NAME` takes one over")
