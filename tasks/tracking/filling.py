"""What the run of a stage that ended well holds besides its curves: parameters, metrics, data sets, models, artifacts, figures, dialogues.

All of it can be sent again without doubling anything, because sending may break off anywhere and starts anew.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tasks import records
from tasks.records import File, StageRecord
from tasks.tracking import datasets, figures, models, prompts, traces
from tasks.tracking.models import LogModels as LogModels
from tasks.tracking.spool import stamp
from tasks.tracking.store import Store

SAMPLE_TABLE = "transcripts/sample.json"


def fill(store: Store, run: str, record: StageRecord, stamps: Mapping[str, str], log_models: LogModels, dialogues: int) -> None:
    """`dialogues`: how many become sessions of traces, in equal parts of each transcript file. Files that a later run has replaced are left out, by name."""
    from mlflow.entities import Metric, Param

    client = store.client
    for some in records.chunks(sorted(record.parameters.items()), 100):
        client.log_batch(run, params=[Param(name, value[:6000]) for name, value in some])
    here, replaced = present(record, stamps)
    if replaced:
        client.set_tag(run, "replaced_since", ", ".join(replaced)[:5000])
    used = models.link(store, run, here, log_models)
    datasets.link(store, run, here)
    prompts.link(store, run, record)
    own = next((model for model in used if model.name == record.variant), None)
    began = client.get_run(run).info.start_time
    scores = [
        Metric(name, value, began, 0, **({"model_id": own.model_id, "run_id": run} if own else {}))
        for name, value in record.metrics.items()
    ]
    for batch in records.chunks(scores, 1000):
        client.log_batch(run, metrics=batch)
    for file in (*here.artifacts, *here.datasets):
        if file.path.is_dir():
            client.log_artifacts(run, str(file.path), file.name)
        else:
            client.log_artifact(run, str(file.path), file.name.rpartition("/")[0] or None)
    for name, figure in figures.of(here):
        client.log_figure(run, figure, f"figures/{name}.png")
    _log_samples(store, run, here.transcripts)
    for file in here.transcripts:
        traces.log_file(store, file.path, run=run, most=dialogues // len(here.transcripts))


def present(record: StageRecord, stamps: Mapping[str, str]) -> tuple[StageRecord, list[str]]:
    """The record with the files that are as the stage left them, and the names of the others."""
    files = {name: getattr(record, name) for name in StageRecord.FILES}
    kept: dict[str, Any] = {
        name: tuple(file for file in some if file.path.exists() and stamp(file.path) == stamps[file.name]) for name, some in files.items()
    }
    return replace(record, **kept), sorted({file.name for name, some in files.items() for file in some if file not in kept[name]})


def _log_samples(store: Store, run: str, transcripts: Sequence[File]) -> None:
    """The first dialogues of each file as text, and the turns of all of them as one table. `log_table` would add to what is there."""
    lines: list[str] = []
    for file in transcripts:
        sampled = records.sample(file.path)
        store.client.log_text(run, "".join(sampled), f"transcripts/sample of {file.path.name}")
        lines += sampled
    if lines:
        rows = [row for line in lines for row in _rows(json.loads(line))]
        store.client.log_dict(run, {"columns": list(_COLUMNS), "data": rows}, SAMPLE_TABLE)
        store.client.set_tag(run, "mlflow.loggedArtifacts", json.dumps([{"path": SAMPLE_TABLE, "type": "table"}]))


_COLUMNS = ("dialogue_id", "turn", "user", "think", "assistant", "emotion", "reason")


def _rows(dialogue: dict[str, Any]) -> list[list[Any]]:
    return [
        [
            dialogue.get("dialogue_id"),
            number,
            *(turn.get(name) for name in ("user", "think", "assistant", "emotion")),
            (turn.get("appraisal") or {}).get("feeling"),
        ]
        for number, turn in enumerate(dialogue.get("turns", ()), start=1)
    ]
