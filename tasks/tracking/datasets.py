"""Personas in MLflow: as data sets of the runs that read or wrote them, and the test personas as an evaluation dataset, by their MD5."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from components.files import read_jsonl
from tasks.records import File, StageRecord
from tasks.tracking.store import Store

if TYPE_CHECKING:
    from mlflow.entities import DatasetInput, EvaluationDataset

TEST = "test"  # the stem of the file with the personas of the benchmark


def link(store: Store, run: str, record: StageRecord) -> None:
    """Tie a run to the persona files that it read or wrote; what it wrote for tests becomes an evaluation dataset."""
    inputs = [_dataset(file, record.name) for file in (*record.datasets, *record.datasets_read)]
    if inputs:
        store.client.log_inputs(run, datasets=inputs)
    for file in record.datasets:
        if file.path.stem == TEST:
            dataset = register(store, file)
            store.client.set_tag(run, f"evaluation_dataset/{file.path.stem}", dataset.name)


def register(store: Store, file: File) -> EvaluationDataset:
    """The evaluation dataset of these personas, one record each, made if there is none of this MD5 yet."""
    import mlflow

    name = f"personas {file.path.stem} {file.md5[:8]}"
    found = store.client.search_datasets([store.experiment], filter_string=f"name = '{name}'")
    dataset = found[0] if found else store.client.create_dataset(name, store.experiment, {"md5": file.md5, "dvc_path": file.name})
    mlflow.set_tracking_uri(store.uri)  # merge_records knows no client
    dataset.merge_records([_record(row) for row in _rows(file)])
    return dataset


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
    from mlflow.entities import DatasetInput, InputTag

    flat = [{key: value for key, value in row.items() if isinstance(value, (str, int, float, bool))} for row in _rows(file)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # hints about model signatures
        dataset = from_pandas(pandas.DataFrame(flat), source=str(file.path), name=f"personas {file.path.stem}", digest=file.md5[:32])
        entity = dataset._to_mlflow_entity()
    return DatasetInput(entity, tags=[InputTag("mlflow.data.context", stage), InputTag("md5", file.md5)])


def _rows(file: File) -> list[dict[str, Any]]:
    return [row for _, row in read_jsonl(file.path)]
