"""MLflow, filled from the files on disk: one run per executed stage, children of one parent run per pipeline run. The only user of mlflow.

Numbers are not logged while a stage runs: its files are the record, and a tracker that is down costs nothing but a later look. What the
tracker missed (it was unreachable, or a stage was run by `dvc repro`) is logged by the next pipeline run.
"""

from __future__ import annotations

import json
import logging
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from tasks import records
from tasks.environment import shown
from tasks.records import File, Revision, StageRecord

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import DatasetInput, Experiment, LoggedModel

EXPERIMENT = "rlver"
LogModels = Literal["full", "reference"]
HEADLINES = re.compile(r"([^/]+/)?(emotion_mean|success_rate|failure_rate)")  # the first part: the file, of a stage that writes several


class TrackingUnavailable(RuntimeError):
    """The tracker cannot be reached or refuses what it was given; the message is one line."""


class MlflowRecorder:
    """One pipeline run. Use as a context manager; the parent run is opened by the first stage that is recorded."""

    def __init__(self, root: Path, uri: str, log_models: LogModels, tags: dict[str, str] | None = None) -> None:
        self.root, self.uri, self.log_models, self.tags = root, uri, log_models, tags or {}
        self._parent: str | None = None
        self._opened: tuple[MlflowClient, Experiment] | None = None
        self._failed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._parent is not None:
            self.close("KILLED" if kind is KeyboardInterrupt else "FAILED" if kind or self._failed else "FINISHED")

    @property
    def parent_run(self) -> str | None:
        """The run of this pipeline run; None while no stage was recorded."""
        return self._parent

    def stage_failed(self) -> None:
        """The pipeline run did not succeed."""
        self._failed = True

    def holder(self, record: StageRecord) -> str | None:
        """The newest run that holds exactly these outputs of this stage, or None."""
        with _readable():
            return _holder(*self._open(), record.name, record.digest)

    def record(self, record: StageRecord) -> str:
        """Log one stage and return its run. Raises TrackingUnavailable."""
        with _readable():
            client, experiment = self._open()
            parent = self._parent or self._begin(client, experiment)
            tags = {
                **self._common_tags(),
                "mlflow.parentRunId": parent,
                "stage": record.name,
                "outputs": record.digest,
                **({"variant": record.variant} if record.variant else {}),
                **{f"md5/{path}": md5 for path, md5 in record.md5s.items()},
            }
            run: str = client.create_run(experiment.experiment_id, run_name=record.name, tags=tags).info.run_id
            self._fill(client, experiment, run, record)
            client.set_terminated(run)
            if record.variant:
                self._log_metrics(
                    client, parent, [(f"{record.variant}/{k}", 0, v) for k, v in record.metrics.items() if HEADLINES.fullmatch(k)]
                )
            return run

    def report(self, name: str, digest: str, parameters: Mapping[str, str], metrics: Mapping[str, float], files: Iterable[Path]) -> str:
        """Log what was made outside the graph, in a run of its own unless one holds it already; its run. Raises TrackingUnavailable."""
        from mlflow.entities import Param

        with _readable():
            client, experiment = self._open()
            if held := _holder(client, experiment, name, digest):
                return held
            tags = {**self._common_tags(), "mlflow.source.name": f"rlver {name}", "stage": name, "outputs": digest}
            run: str = client.create_run(experiment.experiment_id, run_name=name, tags=tags).info.run_id
            client.log_batch(run, params=[Param(key, value[:6000]) for key, value in sorted(parameters.items())])
            self._log_metrics(client, run, [(key, 0, value) for key, value in metrics.items()])
            for file in files:
                client.log_artifact(run, str(file))
            client.set_terminated(run)
            return run

    def close(self, status: str = "FINISHED") -> None:
        """End the parent run. Never raises: the pipeline's own outcome matters more."""
        if self._parent is not None and self._opened is not None:
            parent, self._parent = self._parent, None
            try:
                with _readable():
                    self._opened[0].set_terminated(parent, status)
            except TrackingUnavailable:
                pass

    def _open(self) -> tuple[MlflowClient, Experiment]:
        if self._opened is None:
            from mlflow import MlflowClient

            logging.getLogger("mlflow.store.db.utils").setLevel(logging.WARNING)
            client = MlflowClient(tracking_uri=self.uri)
            experiment = client.get_experiment_by_name(EXPERIMENT)
            if experiment is None:
                local = self.uri.startswith("sqlite:")
                place = (self.root / "mlartifacts").as_uri() if local else None
                experiment = client.get_experiment(client.create_experiment(EXPERIMENT, artifact_location=place))
            self._opened = client, experiment
        return self._opened

    def _begin(self, client: MlflowClient, experiment: Experiment) -> str:
        revision = records.revision(self.root)
        name = f"pipeline {revision.commit[:8]}{'+' if revision.dirty else ''}" if revision else "pipeline"
        self._parent = client.create_run(experiment.experiment_id, run_name=name, tags=self._common_tags(revision)).info.run_id
        return self._parent

    def _common_tags(self, revision: Revision | None = None) -> dict[str, str]:
        from tasks.dvc import lock_hash

        revision = revision or records.revision(self.root)
        git = {"mlflow.source.git.commit": revision.commit, "git_dirty": str(revision.dirty).lower()} if revision else {}
        return {"mlflow.source.name": "rlver run", "dvc_lock": lock_hash(self.root) or "none", **git, **self.tags}

    def _fill(self, client: MlflowClient, experiment: Experiment, run: str, record: StageRecord) -> None:
        from mlflow.entities import LoggedModelInput, LoggedModelOutput, Param

        for some in records.chunks(sorted(record.parameters.items()), 100):
            client.log_batch(run, params=[Param(name, value[:6000]) for name, value in some])
        written = [self._model(client, experiment, run, model) for model in record.models]
        if written:
            client.log_outputs(run, [LoggedModelOutput(model.model_id, step=0) for model in written])
        used = [model for file in record.models_read for model in self._models_known(client, experiment, file)]
        if used:
            client.log_inputs(run, models=[LoggedModelInput(model.model_id) for model in used])
        datasets = [_dataset(file, record.name) for file in (*record.datasets, *record.datasets_read)]
        if datasets:
            client.log_inputs(run, datasets=datasets)
        self._log_metrics(client, run, record.curves)
        own = next((model for model in (*written, *used) if model.name == record.variant), None)
        self._log_metrics(client, run, [(name, 0, value) for name, value in record.metrics.items()], own)
        for file in (*record.artifacts, *record.datasets):
            if file.path.is_dir():
                client.log_artifacts(run, str(file.path), file.name)
            else:
                client.log_artifact(run, str(file.path), file.name.rpartition("/")[0] or None)
        for file in record.transcripts:
            sampled = records.sample(file.path)
            client.log_text(run, "".join(sampled), f"transcripts/sample of {file.path.name}")
            client.log_table(run, _table(sampled), "transcripts/sample.json")

    def _log_metrics(
        self, client: MlflowClient, run: str, points: Iterable[tuple[str, int, float]], model: LoggedModel | None = None
    ) -> None:
        from mlflow.entities import Metric

        now = client.get_run(run).info.start_time
        model_id = model.model_id if model else None
        for some in records.chunks(points, 1000):
            client.log_batch(run, metrics=[Metric(name, value, now, step, model_id=model_id) for name, step, value in some])

    def _model(self, client: MlflowClient, experiment: Experiment, run: str, file: File) -> LoggedModel:
        """The logged model of this MD5: the one that exists, or a new one, whose files are stored once."""
        for known in self._models_known(client, experiment, file):
            return known
        model = client.create_logged_model(
            experiment.experiment_id,
            name=file.path.name,
            source_run_id=run,
            tags={"md5": file.md5, "dvc_path": file.name, "log_models": self.log_models},
            model_type="dialogue policy",
        )
        if self.log_models == "full":
            client.log_model_artifacts(model.model_id, str(file.path))
        return client.finalize_logged_model(model.model_id, "READY")

    def _models_known(self, client: MlflowClient, experiment: Experiment, file: File) -> Sequence[LoggedModel]:
        found = client.search_logged_models([experiment.experiment_id], f"tags.md5 = '{file.md5}'")
        return [model for model in found if self.log_models == "reference" or model.tags.get("log_models") == "full"][:1]


def _holder(client: MlflowClient, experiment: Experiment, stage: str, digest: str) -> str | None:
    found = client.search_runs(
        [experiment.experiment_id],
        f"tags.stage = '{stage}' and tags.outputs = '{digest}' and attributes.status = 'FINISHED'",
        max_results=1,
    )
    return found[0].info.run_id if found else None


def log_pipeline(recorder: MlflowRecorder, stages: Iterable[StageRecord]) -> dict[str, str]:
    """Log each stage whose outputs no run holds yet; returns the holding run of every stage. Raises TrackingUnavailable."""
    return {stage.name: recorder.holder(stage) or recorder.record(stage) for stage in stages}


def _dataset(file: File, stage: str) -> DatasetInput:
    import pandas
    from mlflow.data.pandas_dataset import from_pandas
    from mlflow.entities import DatasetInput, InputTag

    rows = [json.loads(line) for line in file.path.read_text(encoding="utf-8").splitlines() if line.strip()]
    flat = [{key: value for key, value in row.items() if isinstance(value, (str, int, float, bool))} for row in rows]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # hints about model signatures
        dataset = from_pandas(pandas.DataFrame(flat), source=str(file.path), name=f"personas {file.path.stem}", digest=file.md5[:32])
        entity = dataset._to_mlflow_entity()
    return DatasetInput(entity, tags=[InputTag("mlflow.data.context", stage), InputTag("md5", file.md5)])


def _table(lines: Sequence[str]) -> dict[str, list[Any]]:
    """One row per turn of the sampled dialogues."""
    columns: dict[str, list[Any]] = {name: [] for name in ("dialogue_id", "turn", "user", "think", "assistant", "emotion", "reason")}
    for line in lines:
        dialogue = json.loads(line)
        for number, turn in enumerate(dialogue.get("turns", ()), start=1):
            reason = (turn.get("appraisal") or {}).get("feeling")
            values = (dialogue.get("dialogue_id"), number, turn.get("user"), turn.get("think"), turn.get("assistant"), turn.get("emotion"))
            for column, value in zip(columns.values(), (*values, reason), strict=True):
                column.append(value)
    return columns


@contextmanager
def _readable() -> Iterator[None]:
    """Turns MLflow's errors into TrackingUnavailable with a one-line message."""
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except (MlflowException, SQLAlchemyError, OSError) as error:
        first = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise TrackingUnavailable(f"MLflow: {shown(first)}") from error
