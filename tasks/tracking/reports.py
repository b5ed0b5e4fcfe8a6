"""What was made outside the graph, such as a comparison by people, as a run of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from tasks.tracking.store import opened, readable


def log_report(
    root: Path, uri: str, name: str, digest: str, parameters: Mapping[str, str], metrics: Mapping[str, float], files: Iterable[Path]
) -> str:
    """Log it, unless a run holds a report of this name and digest already; the run. Raises TrackingUnavailable."""
    from mlflow.entities import Metric, Param

    with readable():
        store = opened(root, uri)
        held = store.runs(f"tags.stage = '{name}'", f"tags.outputs = '{digest}'", "attributes.status = 'FINISHED'", most=1)
        if held:
            return str(held[0].info.run_id)
        tags = {"mlflow.source.name": f"rlver {name}", "stage": name, "outputs": digest}
        made = store.client.create_run(store.experiment, run_name=name, tags=tags)
        run = str(made.info.run_id)
        store.client.log_batch(
            run,
            params=[Param(key, value[:6000]) for key, value in sorted(parameters.items())],
            metrics=[Metric(key, value, made.info.start_time, 0) for key, value in metrics.items()],
        )
        for file in files:
            store.client.log_artifact(run, str(file))
        store.client.set_terminated(run)
        return run
