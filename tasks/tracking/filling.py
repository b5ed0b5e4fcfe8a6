"""One fill of an MLflow run from what a stage left on disk: parameters, metrics, data sets, models, artifacts, figures and dialogues.

It can be done again without doubling anything, because sending may break off anywhere and starts anew. Personas are data sets of the runs
that wrote or read them; the test personas are an evaluation dataset too, one for each MD5.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from rlver.components.domain.files import read_jsonl
from rlver.tasks.tracking import models, prompts, traces
from rlver.tasks.tracking.models import LogModels
from rlver.tasks.tracking.records import File, StageRecord, kind, metric_name
from rlver.tasks.tracking.store import Store, chunks

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from mlflow.entities import DatasetInput

SAMPLE_TABLE, SAMPLE_TRANSCRIPTS = "transcripts/sample.json", 20
TEST = "test"  # the stem of the file with the personas of the benchmark


def fill(store: Store, run: str, record: StageRecord, log_models: LogModels, dialogues: int) -> None:
    """`dialogues`: how many become sessions of traces, in equal parts of each transcript file. Files that a later run has replaced are left out, by name."""
    from mlflow.entities import Metric, Param

    client = store.client
    parameters = {metric_name(name): value[:6000] for name, value in sorted(record.parameters.items())}
    for some in chunks(parameters.items(), 100):
        client.log_batch(run, params=[Param(name, value) for name, value in some])
    files = {name: getattr(record, name) for name in StageRecord.FILES}
    kept: dict[str, tuple[File, ...]] = {name: tuple(file for file in some if file.is_unchanged) for name, some in files.items()}
    if replaced := sorted({file.name for name, some in files.items() for file in some if file not in kept[name]}):
        client.set_tag(run, "replaced_since", ", ".join(replaced)[:5000])
    here = record.model_copy(update=kept)
    used = models.link(store, run, here, log_models)
    _link_datasets(store, run, here)
    prompts.link(store, run, record)
    own = next((model for model in used if model.name == models.name_of(record.variant or "")), None)
    began = client.get_run(run).info.start_time
    of_model = {"model_id": own.model_id, "run_id": run} if own else {}
    for scores in chunks(record.metrics.items(), 1000):
        client.log_batch(run, metrics=[Metric(name, value, began, 0, **of_model) for name, value in scores])
    for file in (*here.artifacts, *here.datasets):
        if file.path.is_dir():
            client.log_artifacts(run, str(file.path), file.name)
        else:
            client.log_artifact(run, str(file.path), file.name.rpartition("/")[0] or None)
    for name, figure in _figures(here):
        client.log_figure(run, figure, f"figures/{name}.png")
    _log_samples(store, run, here.transcripts)
    for file in here.transcripts:
        traces.log_file(store, file.path, run=run, most=dialogues // len(here.transcripts))


def _log_samples(store: Store, run: str, transcripts: Sequence[File]) -> None:
    """The first dialogues of each file as text, and the turns of all of them as one table. `log_table` would add to what is there."""
    lines: list[str] = []
    for file in transcripts:
        with file.path.open(encoding="utf-8") as text:
            sampled = [line for line in islice(text, SAMPLE_TRANSCRIPTS) if line.strip()]
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


def _figures(record: StageRecord) -> Iterator[tuple[str, Figure]]:
    """(name, figure) of everything in a record that can be drawn: learning curves of what was trained, trajectories of what was said."""
    from rlver.components.report.curves import learning_curve, training_health, trajectories
    from rlver.components.report.material import Material, Variant, read_curve
    from rlver.components.rollout.transcripts import load_transcripts

    name = record.variant or record.name
    for file in record.artifacts:
        if kind(file.name) == "logs" and file.path.is_dir():
            curves = read_curve(file.path / "train.csv"), read_curve(file.path / "evaluation.csv")
            trained = Material((Variant(name, False, (), {}, *curves),), {})
            yield from ((drawn.name, drawn.figure) for draw in (learning_curve, training_health) if (drawn := draw(trained)))
    for file in record.transcripts:
        said = Material((Variant(name, False, tuple(load_transcripts(file.path)), {}, None, None),), {})
        if drawn := trajectories(said):
            yield (drawn.name if len(record.transcripts) == 1 else f"{drawn.name} {file.path.stem}"), drawn.figure


def _link_datasets(store: Store, run: str, record: StageRecord) -> None:
    """Tie a run to the persona files that it read or wrote; what it wrote for tests becomes an evaluation dataset."""
    import mlflow

    inputs = [_dataset(file, record.name) for file in (*record.datasets, *record.datasets_read)]
    if inputs:
        store.client.log_inputs(run, datasets=inputs)
    for file in record.datasets:
        if file.path.stem == TEST:
            name = f"personas {TEST} {file.md5[:8]}"
            found = store.client.search_datasets([store.experiment], filter_string=f"name = '{name}'")
            dataset = found[0] if found else store.client.create_dataset(name, store.experiment, {"md5": file.md5, "dvc_path": file.name})
            mlflow.set_tracking_uri(store.uri)  # merge_records knows no client
            dataset.merge_records([_record(row) for row in _data_set_rows(file)])
            store.client.set_tag(run, f"evaluation_dataset/{TEST}", dataset.name)


def _record(row: dict[str, Any]) -> dict[str, Any]:
    """Who speaks and what about is the input; what they want without saying so is what a policy is expected to find out."""
    hidden = ("hidden_need", "need_text")
    return {
        "inputs": {name: value for name, value in row.items() if name not in hidden},
        "expectations": {name: row[name] for name in hidden if name in row},
    }


def _dataset(file: File, stage: str) -> DatasetInput:
    import pandas
    from mlflow.data.pandas_dataset import from_pandas
    from mlflow.entities import Dataset, DatasetInput, InputTag

    flat = [{key: value for key, value in row.items() if isinstance(value, (str, int, float, bool))} for row in _data_set_rows(file)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # hints about model signatures
        dataset = from_pandas(pandas.DataFrame(flat), source=str(file.path), name=f"personas {file.path.stem}", digest=file.md5[:32])
        entity = Dataset(**dataset.to_dict())
    return DatasetInput(entity, tags=[InputTag("mlflow.data.context", stage), InputTag("md5", file.md5)])


def _data_set_rows(file: File) -> list[dict[str, Any]]:
    return [row for _, row in read_jsonl(file.path)]
