"""One fill of an MLflow run from what a stage left on disk: parameters, metrics, data sets, models, prompts, artifacts, figures, dialogues.

It can be done again without doubling anything, because sending may break off anywhere and starts anew. Personas are data sets of the runs
that wrote or read them; the test personas are an evaluation dataset too, one for each MD5.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Iterator, Sequence
from importlib.resources import files
from itertools import islice
from typing import TYPE_CHECKING, Any

from rlver.components.domain.files import read_jsonl
from rlver.tasks.tracking import models, traces
from rlver.tasks.tracking.models import LogModels
from rlver.tasks.tracking.records import File, StageRecord, kind, metric_name
from rlver.tasks.tracking.store import Store, chunks

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from mlflow.entities import DatasetInput

SAMPLE_TABLE, SAMPLE_TRANSCRIPTS = "transcripts/sample.json", 20
TEST = "test"  # the stem of the file with the personas of the benchmark
PROMPTS = {"policy": "rlver.components.domain", "user": "rlver.components.users.llm"}  # by who is prompted: where the folder `prompts` is


def fill(store: Store, run: str, record: StageRecord, log_models: LogModels, dialogues: int) -> None:
    """`dialogues`: how many become sessions of traces, in equal parts of each transcript file. Files that a later run has replaced are left out, by name."""
    from mlflow.entities import Metric, Param

    client = store.client
    parameters = {metric_name(name): value[:6000] for name, value in sorted(record.parameters.items())}
    for some in chunks(parameters.items(), 100):
        client.log_batch(run, params=[Param(name, value) for name, value in some])
    left = {name: getattr(record, name) for name in StageRecord.FILES}
    kept: dict[str, tuple[File, ...]] = {name: tuple(file for file in some if file.is_unchanged) for name, some in left.items()}
    if replaced := sorted({file.name for name, some in left.items() for file in some if file not in kept[name]}):
        client.set_tag(run, "replaced_since", ", ".join(replaced)[:5000])
    here = record.model_copy(update=kept)
    began = client.get_run(run).info.start_time
    for scores in chunks(record.metrics.items(), 1000):
        client.log_batch(run, metrics=[Metric(name, value, began, 0) for name, value in scores])
    _link_datasets(store, run, here)
    _link_prompts(store, run, record)
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
    used = models.link(store, run, here, log_models)  # last: where a model is too much for the tracker, all else is there
    if own := next((model for model in used if model.name == models.name_of(record.variant or "")), None):
        for scores in chunks(record.metrics.items(), 1000):  # the same values again are the run's once, and the model's
            client.log_batch(run, metrics=[Metric(name, value, began, 0, model_id=own.model_id, run_id=run) for name, value in scores])


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


def _rows(dialogue: dict[str, Any]) -> Iterator[list[Any]]:
    for number, turn in enumerate(dialogue.get("turns", ()), start=1):
        reason = (turn.get("appraisal") or {}).get("feeling")
        known = {**turn, "dialogue_id": dialogue.get("dialogue_id"), "turn": number, "reason": reason}
        yield [known.get(name) for name in _COLUMNS]


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


def _link_prompts(store: Store, run: str, record: StageRecord) -> None:
    """Name what a stage that holds dialogues put to a model: the policy's prompts, and those of the user if a language model plays it."""
    parameters = record.parameters
    if not (record.models or record.models_read) or not {"policy.thinking", "simulator.kind"} <= parameters.keys():
        return
    texts = _prompts("policy", "think" if parameters["policy.thinking"] == "True" else "direct")
    who = (parameters.get(f"simulator.{part}", "None") for part in ("appraiser", "speaker"))
    if "llm" in {parameters["simulator.kind"] if one == "None" else one.partition(":")[0] for one in who}:
        texts |= _prompts("user")
    used = [_registered_prompt(store, name, text) for name, text in texts.items()]
    store.client.set_tag(run, "mlflow.linkedPrompts", json.dumps(used))  # what a run's page lists


def _prompts(role: str, prefix: str = "") -> dict[str, str]:
    found = sorted(files(PROMPTS[role]).joinpath("prompts").iterdir(), key=lambda one: one.name)
    texts = (one for one in found if one.name.startswith(prefix) and one.name.endswith(".txt"))
    return {f"{role}.{one.name.removesuffix('.txt')}": one.read_text(encoding="utf-8").strip() for one in texts}


def _registered_prompt(store: Store, name: str, text: str) -> dict[str, str]:
    """Name and version of the newest version of a prompt if it has these words, else of a new one."""
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    latest = store.client.load_prompt(f"prompts:/{name}@latest", allow_missing=True, cache_ttl_seconds=0)
    if latest is None or latest.tags.get("sha256") != digest:
        latest = store.client.register_prompt(name, text, commit_message=f"sha256 {digest}", tags={"sha256": digest})
    return {"name": name, "version": str(latest.version)}
