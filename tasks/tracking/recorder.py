"""One run per executed stage, children of one parent run per pipeline run: written to the spool first, then sent to MLflow.

Who waits for MLflow decides the caller: `begin`, `add`, `finish` and `close` only write files; `send` talks to MLflow and may fail at any
point, and whatever it could not send is sent by the next call, in this process or another.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Self

from rlver.components.domain.files import BadFile
from rlver.components.settings.sections import TrackingSettings
from rlver.components.settings.settings import load_settings
from rlver.tasks.graph import dvc
from rlver.tasks.graph import lock as integrity
from rlver.tasks.runtime.environment import shown
from rlver.tasks.tracking import records
from rlver.tasks.tracking.filling import fill
from rlver.tasks.tracking.models import LogModels, known
from rlver.tasks.tracking.records import StageRecord
from rlver.tasks.tracking.spool import PIPELINE, Spool, SpoolEntry, SpoolReading, now_ms
from rlver.tasks.tracking.store import RunRefused, Store, TrackingUnavailable, chunks, ended, open_store, readable

HEADLINES = re.compile(r"([^/]+/)?(emotion_mean|success_rate|failure_rate)")  # the first part: the file, of a stage that writes several
BATCH = 1000  # metrics a call, MLflow's limit


class MlflowRecorder:
    """One pipeline run. Use as a context manager; the parent run is begun by the first stage that is recorded.

    `traces`: how many dialogues of a stage are logged as sessions of traces. Without `log_models`, both are as the settings of a stage's variant
    say; without settings, all of a model and no dialogue is logged.
    """

    def __init__(
        self, root: Path, uri: str, log_models: LogModels | None = None, tags: dict[str, str] | None = None, traces: int = 0
    ) -> None:
        self.root, self.uri, self.tags = root, uri, tags or {}
        self._options = TrackingSettings(log_models=log_models or "full", traces=traces)
        self._by_variant = log_models is None
        self.spool = Spool.of(root, uri)
        self.runs: dict[str, str] = {}  # of what was sent: entry -> MLflow run
        self._pipeline: SpoolEntry | None = None
        self.failed = False  # the pipeline run did not succeed
        self._kept = False
        # Stages whose code or parameters have changed since they ran: of what commit they are, nobody knows.
        self.unsure: Collection[str] = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close("KILLED" if kind is KeyboardInterrupt else "FAILED" if kind or self.failed else "FINISHED")

    # On disk only.

    def begin(self, stage: str) -> SpoolEntry:
        """A stage starts to work."""
        now = None if stage in self.unsure else records.revision(self.root)
        git = {"mlflow.source.git.commit": now.commit, "git_dirty": str(now.dirty).lower()} if now else {}
        tags = {**git, "mlflow.source.name": "rlver run", "dvc_lock": _lock_hash(self.root), **self.tags}
        if self._pipeline is None:
            name = f"{PIPELINE} {tags.get('mlflow.source.git.commit', '')[:8]}{'+' if tags.get('git_dirty') == 'true' else ''}"
            self._pipeline = self.spool.begin(name.strip(), None, tags)
        group, _, variant = stage.rpartition(":")[2].partition("@")
        own = {"stage": stage, "stage_group": group, **({"variant": variant} if variant else {})}
        return self.spool.begin(stage, self._pipeline.identity, own | tags)

    def finish(self, entry: SpoolEntry, record: StageRecord) -> None:
        """A stage has ended well. Of its curves, what the spool has already keeps the time at which it was seen.

        Of a point that has another value by now (the stage was killed and took it up again), the file's value is sent too, as the later one.
        """
        self._kept = True
        seen = {(reading.name, reading.step): reading.value for reading, _ in entry.readings()}
        now = now_ms()
        new = (point for point in record.curves if repr(seen.get((point.name, point.step))) != repr(point.value))  # NaN != NaN
        entry.add(SpoolReading(point.name, point.step, point.value, now) for point in new)
        if self._pipeline and record.variant:
            headlines = [(name, value) for name, value in record.metrics.items() if HEADLINES.fullmatch(name)]
            group = record.name.rpartition(":")[2].partition("@")[0]
            who = record.variant + ("-warmup" if group.endswith("-warmup") else "")  # which is scored of the same variant, and later
            self._pipeline.add(SpoolReading(f"{who}/{name}", 0, value, now) for name, value in headlines)
        seed = record.parameters.get("seed")
        tags = {
            "outputs": record.digest,
            "dvc_lock": _lock_hash(self.root),
            **{f"md5/{path}": md5 for path, md5 in record.md5s.items()},
            **({"seed": seed} if seed else {}),
        }
        entry.close("FINISHED", ended_ms=now, tags=tags, record=record)

    def fail(self, entry: SpoolEntry, reason: str, status: str = "FAILED") -> None:
        """A stage has failed or was killed: what it measured until then stays."""
        self.failed = self._kept = True
        entry.close(status, tags={"failure": reason[:500]})

    def end(self, status: str = "FINISHED") -> None:
        """The pipeline run is over. One of which no stage ran is forgotten."""
        if self._pipeline is not None:
            pipeline, self._pipeline = self._pipeline, None
            pipeline.close(status, tags={"dvc_lock": _lock_hash(self.root)}, forget=not self._kept)

    def close(self, status: str = "FINISHED") -> None:
        """End the pipeline run and send what is left. Never raises: the pipeline's own outcome matters more, and the spool keeps it."""
        if self._pipeline is not None:
            self.end(status)
            with contextlib.suppress(TrackingUnavailable):
                self.send_what_can_be()

    # To MLflow.

    def holder(self, record: StageRecord) -> str | None:
        """The newest run that holds exactly these outputs of this stage, or None; also where its models are not there as they are wanted."""
        with readable():
            store, wanted = self._store, self._wanted(record).log_models
            if not all(known(store, model.md5, wanted) for model in record.models):
                return None
            found = store.runs(f"tags.stage = '{record.name}'", f"tags.outputs = '{record.digest}'", "attributes.status = 'FINISHED'")
            return found[0].info.run_id if found else None

    def record(self, record: StageRecord) -> str:
        """Log one stage that has ended and return its run. Raises TrackingUnavailable; it is sent later then."""
        entry = self.begin(record.name)
        self.finish(entry, record)
        troubles = self.send_what_can_be()
        if entry.identity not in self.runs:
            raise troubles[0] if troubles else TrackingUnavailable("MLflow: another process is sending; this run follows")
        return self.runs[entry.identity]

    def send(self) -> None:
        """Send everything in the spool, oldest first. Raises the first trouble, after the rest is sent. Does nothing while another process sends."""
        if troubles := self.send_what_can_be():
            raise troubles[0]

    def send_what_can_be(self) -> list[Exception]:
        """The same; returns the troubles with entries of their own. Raises TrackingUnavailable where it is the tracker's."""
        troubles: list[Exception] = []
        with self.spool.only_sender() as mine:
            entries = self.spool.entries() if mine else []
            if entries:
                with readable():
                    _ = self._store  # what is wrong with it is no entry's trouble
            for of_pipelines in (False, True):  # a pipeline run ends last
                for entry in entries:
                    try:
                        if entry.exists and (entry.head.parent is None) is of_pipelines:
                            with readable():
                                self._send(entry)
                    except RunRefused as error:
                        troubles.append(RunRefused(f"{entry.head.name}: {error}; to give this run up, delete {entry.folder}"))
                    except (TrackingUnavailable, ValueError) as error:  # one entry in trouble keeps no other from being sent
                        troubles.append(error)
                    except Exception as error:  # a bug of ours, too
                        troubles.append(TrackingUnavailable(f"{entry.folder}: {type(error).__name__}: {error}"))
        for trouble in troubles:
            if isinstance(trouble, TrackingUnavailable) and not isinstance(trouble, RunRefused):
                raise trouble
        return troubles

    def _send(self, entry: SpoolEntry) -> None:
        from mlflow.entities import Metric

        if entry.abandoned:
            last = max((reading.at_ms for reading, _ in entry.readings()), default=entry.head.began_ms)
            entry.close("KILLED", ended_ms=last)
        end, store, sent = entry.end, self._store, entry.sent[0]
        deleted = bool(end and sent and not store.has(sent))
        if end and (end.forget or (deleted and end.status != "FINISHED")):
            if sent and not deleted:
                store.client.delete_run(sent)
            entry.remove()
            return
        run = self._run(store, entry)
        for some in chunks(entry.readings(entry.sent[1]), BATCH):
            store.client.log_batch(run, metrics=[Metric(one.name, one.value, one.at_ms, one.step) for one, _ in some])
            entry.mark_sent(run, some[-1][1])
        if end is not None:
            for name, value in end.tags.items():
                store.client.set_tag(run, name, value)
            if end.record:
                wanted = self._wanted(end.record)
                fill(store, run, end.record, wanted.log_models, wanted.traces)
            store.client.set_terminated(run, end.status, end.ended_ms)
            for other in store.runs(f"tags.spool = '{entry.identity}'"):
                if other.info.run_id != run:  # MLflow's client asks again when an answer is lost, so one entry may have become two runs
                    store.client.delete_run(other.info.run_id)
            entry.remove()

    def _run(self, store: Store, entry: SpoolEntry) -> str:
        """The run of an entry: the one it became, one that was made just before a crash, or a new one, under that of its pipeline.

        One that somebody deleted is made anew.
        """
        run, upto = entry.sent
        if run is None or not store.has(run):
            run, upto = next((one.info.run_id for one in store.runs(f"tags.spool = '{entry.identity}'")), None), 0
        if run is None:
            head, tags = entry.head, {}
            if head.parent:
                with contextlib.suppress(FileNotFoundError):  # it has left the spool, and was deleted since
                    tags["mlflow.parentRunId"] = self.runs.get(head.parent) or self._run(store, SpoolEntry(self.spool.folder / head.parent))
            tags |= {**head.tags, "spool": entry.identity}
            run = str(store.client.create_run(store.experiment, start_time=head.began_ms, run_name=head.name, tags=tags).info.run_id)
        if entry.exists:
            entry.mark_sent(run, upto)
        self.runs[entry.identity] = run
        return run

    def _wanted(self, record: StageRecord) -> TrackingSettings:
        settings = records.settings_of(self.root, record.command_variant) if self._by_variant else None
        return settings.tracking if settings else self._options

    @cached_property
    def _store(self) -> Store:
        return open_store(self.root, self.uri)


def log_pipeline(recorder: MlflowRecorder, stages: Iterable[StageRecord]) -> dict[str, str]:
    """Log each stage whose outputs no run holds yet; returns the holding run of every stage. Raises TrackingUnavailable."""
    recorder.send_what_can_be()
    return {stage.name: recorder.holder(stage) or recorder.record(stage) for stage in stages}


def sync(root: Path, uri: str) -> str:
    """`rlver mlflow sync`: send the spool, and results on disk that no run holds; one line about it. Raises TrackingUnavailable.

    A stage of which files are missing, as in a clone, or are others than dvc.lock says, as after `git pull`, is left out: its run would stay
    empty, or hold them under the wrong name for good.
    """
    load_settings(root / "params.yaml")  # raises for what is wrong with it
    with MlflowRecorder(root, uri) as recorder:
        waiting = len(recorder.spool.entries())
        recorder.send_what_can_be()
        lock = dvc.locked(root)
        before = len(recorder.runs)
        there = [stage for stage in lock if all((root / path).exists() for path in lock[stage].outputs)]
        here = [stage for stage in there if not integrity.differing(root, lock[stage].outputs)]
        stages = [records.read(root, stage, lock) for stage in here]
        recorder.unsure = _changed(root, lock)
        log_pipeline(recorder, [stage for stage in stages if not recorder.spool.has(stage.name, stage.digest)])
        added = len(recorder.runs) - before
        troubles = recorder.send_what_can_be()
    if troubles:
        raise BadFile(f"{troubles[0]}; that run cannot be sent; {added} runs were added for other results")
    left = len(recorder.spool.entries())
    gone, other = len(lock) - len(there), len(there) - len(here)
    missing = f"; {gone} stages left out, their files are not here: `dvc pull` brings them" if gone else ""
    if other:
        missing += f"; {other} stages left out, their files are not those of dvc.lock: `dvc pull` or `rlver run` brings these"
    return f"MLflow {shown(uri)}: {waiting} runs were waiting, {left} still are; {added} runs added for results that none held{missing}"


def _changed(root: Path, lock: Collection[str]) -> Collection[str]:
    """The stages that DVC would run again; all while another DVC is at work, for then nobody can tell."""
    try:
        return dvc.changed(root, ()).keys()
    except dvc.GraphError:
        return lock


def log_report(
    root: Path, uri: str, name: str, digest: str, parameters: Mapping[str, str], metrics: Mapping[str, float], files: Iterable[Path]
) -> str:
    """Log what was made outside the graph, unless a run holds a report of this name and digest already; the run. Raises TrackingUnavailable."""
    with readable():
        store = open_store(root, uri)
        held = store.runs(f"tags.stage = '{name}'", f"tags.outputs = '{digest}'", "attributes.status = 'FINISHED'", most=1)
        if held:
            return str(held[0].info.run_id)
        tags = {"mlflow.source.name": f"rlver {name}", "stage": name, "outputs": digest}
        run = str(store.client.create_run(store.experiment, run_name=name, tags=tags).info.run_id)
        with ended(store.client, run):
            artifacts = tuple(records.stamped(file, file.name, "") for file in files)
            record = StageRecord(name=name, digest=digest, parameters=parameters, metrics=metrics, artifacts=artifacts)
            fill(store, run, record, "reference", dialogues=0)
        return run


def _lock_hash(root: Path) -> str:
    try:
        return dvc.lock_hash(root) or "none"
    except dvc.GraphError:  # another DVC holds the files, a push for an hour perhaps; no result waits for a tag
        return "unknown"
