"""A tracker that dies, hangs or comes late: nothing is lost, nothing is there twice, nobody waits."""

from __future__ import annotations

import http.server
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tracked_project import LOCK

from rlver.components.domain.files import BadFile
from rlver.components.training.curves import CurveFile
from rlver.tasks.runtime import environment, servers
from rlver.tasks.tracking import records
from rlver.tasks.tracking.provenance import LATER, Provenance, StageWatch
from rlver.tasks.tracking.recorder import MlflowRecorder
from rlver.tasks.tracking.spool import Spool, SpoolEntry, SpoolReading
from rlver.tasks.tracking.store import RunRefused, TrackingUnavailable


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1", "MLFLOW_HTTP_REQUEST_TIMEOUT": "10"}.items():
        monkeypatch.setenv(name, value)


def history(uri: str, run: str, name: str) -> list[tuple[int, float]]:
    from mlflow import MlflowClient

    return [(point.step, point.value) for point in MlflowClient(tracking_uri=uri).get_metric_history(run, name)]


def readings(start: int, end: int) -> list[SpoolReading]:
    return [SpoolReading("train/loss", step, step / 2, 1_700_000_000_000 + step) for step in range(start, end)]


@pytest.mark.long
def test_what_was_sent_without_an_answer_is_there_once(tmp_path: Path, tracking_uri: str) -> None:
    recorder = MlflowRecorder(tmp_path, tracking_uri, "reference")
    entry = recorder.begin("train@v")
    entry.add(readings(0, 2500))
    recorder.send()
    run, upto = entry.sent
    assert run is not None and upto == (entry.folder / "points.jsonl").stat().st_size
    for lost in (0, upto // 2):  # the answers to the last batches never came
        entry.mark_sent(run, lost if lost == 0 else next(after for _, after in entry.readings() if after > lost))
        entry.add(readings(2500, 2600) if lost else [])
        recorder.send()
    (entry.folder / "sent.json").unlink()  # a crash right after the run was made
    recorder.send()
    assert entry.sent[0] == run
    assert history(tracking_uri, run, "train/loss") == [(step, step / 2) for step in range(2600)]


def test_a_line_that_is_still_being_written_is_left_for_later(tmp_path: Path) -> None:
    entry = MlflowRecorder(tmp_path, "sqlite:///x.db", "reference").begin("train@v")
    entry.add(readings(0, 2))
    with (entry.folder / "points.jsonl").open("a") as file:
        file.write('["train/loss", 2, 1.')
    assert [reading.step for reading, _ in entry.readings()] == [0, 1]


@pytest.mark.long
def test_a_run_in_a_container_ends_when_its_writer_does_and_not_before(tmp_path: Path) -> None:
    """Where processes are counted anew, its number is nobody's here, or somebody else's."""
    script = (
        "import pathlib, sys; from rlver.tasks.tracking.spool import Spool\n"
        "spool = Spool(pathlib.Path(sys.argv[1])); spool.begin('train@v', None, {}); print('begun', flush=True); sys.stdin.read()\n"
    )
    inside = ("unshare", "--user", "--pid", "--fork", "--kill-child") if _can_unshare() else ()
    command = (*inside, sys.executable, "-c", script, str(tmp_path))
    with subprocess.Popen(command, cwd=Path(__file__).parents[3], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None and writer.stdin is not None
        assert writer.stdout.readline() == "begun\n"
        (entry,) = Spool(tmp_path).entries()
        head = entry.folder / "head.json"
        head.write_text(json.dumps({**json.loads(head.read_text()), "process": [2**22 + 1, 0.0]}))  # no such process
        assert not entry.abandoned and Spool(tmp_path).has("train@v", "other outputs")
        writer.stdin.close()
    assert entry.abandoned and not Spool(tmp_path).has("train@v", "other outputs")


def _can_unshare() -> bool:
    asked = ("unshare", "--user", "--pid", "--fork", "--kill-child", "true")
    return shutil.which("unshare") is not None and subprocess.run(asked, check=False, capture_output=True).returncode == 0


def test_a_run_that_mlflow_refuses_is_named_once_and_hides_no_outage(
    tmp_path: Path, tracking_uri: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    trouble: TrackingUnavailable = RunRefused("MLflow: 'Param key' is too long")

    def send(self: MlflowRecorder, entry: SpoolEntry) -> None:
        raise trouble

    monkeypatch.setattr(MlflowRecorder, "_send", send)
    entry = MlflowRecorder(tmp_path, tracking_uri).spool.begin("train@v", None, {})
    with Provenance(tmp_path, tracking_uri, None, logging.getLogger("flow")) as provenance:
        for _ in range(2):
            provenance._ask(lambda: None).result(timeout=60)
        (said,) = [one.getMessage() for one in caplog.records if one.name == "flow"]
        assert said == f"train@v: MLflow: 'Param key' is too long; to give this run up, delete {entry.folder}"
        trouble = TrackingUnavailable("MLflow: away")
        provenance._answer("score@v", provenance._ask(lambda: None), 60)
    assert [one.getMessage() for one in caplog.records if one.name == "flow"][1:] == [f"score@v: MLflow: away; {LATER}"]


def test_an_entry_that_has_ended_is_not_abandoned_and_lets_go_of_its_lock(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    held = len(os.listdir("/proc/self/fd"))
    entry = spool.begin("train@v", None, {})
    assert not entry.abandoned and not SpoolEntry(entry.folder).abandoned
    entry.close("FINISHED")
    assert not entry.abandoned and len(os.listdir("/proc/self/fd")) == held
    entry.remove()
    assert not entry.abandoned


@pytest.mark.long
def test_a_killed_pipeline_is_closed_by_whoever_sends_next(tmp_path: Path, tracking_uri: str) -> None:
    """The writer dies by SIGKILL in the middle of a stage; its numbers stay, its runs are KILLED, and a live writer's are left alone."""
    from mlflow import MlflowClient

    script = (
        "import os, pathlib, sys; from rlver.tasks.tracking.recorder import MlflowRecorder; from rlver.tasks.tracking.spool import SpoolReading\n"
        "entry = MlflowRecorder(pathlib.Path(sys.argv[1]), sys.argv[2], 'reference').begin('train@v')\n"
        "entry.add([SpoolReading('train/loss', 1, 0.5, 1700000000000)]); os.kill(os.getpid(), 9)\n"
    )
    root = Path(__file__).parents[3]
    died = subprocess.run((sys.executable, "-c", script, str(tmp_path), tracking_uri), cwd=root, check=False)
    assert died.returncode == -signal.SIGKILL
    recorder = MlflowRecorder(tmp_path, tracking_uri, "reference")
    alive = recorder.begin("score@v")
    recorder.send()
    runs = {one.info.run_name: one for one in MlflowClient(tracking_uri=tracking_uri).search_runs(["1"])}
    assert (runs["train@v"].info.status, runs["train@v"].data.metrics) == ("KILLED", {"train/loss": 0.5})
    assert runs["score@v"].info.status == "RUNNING" and alive.exists


def test_a_stage_that_did_not_run_after_all_leaves_no_run(tmp_path: Path, tracking_uri: str) -> None:
    from mlflow import MlflowClient

    with MlflowRecorder(tmp_path, tracking_uri, "reference") as recorder:
        entry = recorder.begin("train@v")
        recorder.send()  # MLflow has a run of it by now
        entry.close("FINISHED", forget=True)
    assert not MlflowClient(tracking_uri=tracking_uri).search_runs(["1"]) and not recorder.spool.entries()


def test_curves_are_followed_while_they_grow_and_are_there_once_in_the_end(tmp_path: Path, tracking_uri: str) -> None:
    recorder = MlflowRecorder(tmp_path, tracking_uri, "reference")
    entry = recorder.begin("train@v")
    curves = CurveFile(tmp_path / "scratch" / f"v-{'0' * 12}" / "curves" / "train")
    other = CurveFile(tmp_path / "scratch" / f"v-more-{'0' * 12}" / "curves" / "train")
    watch = StageWatch(tmp_path, entry, every_s=0.05)
    watch.start()
    for step in range(1, 4):
        curves.record(step, {"loss": step / 2})
        other.record(step, {"loss": 99.0})
        wait_until(lambda step=step: ("train/loss", step) in {(one.name, one.step) for one, _ in entry.readings()})
    watch.stop()
    seen = [one for one, _ in entry.readings() if one.name == "train/loss"]
    assert [(one.step, one.value) for one in seen] == [(1, 0.5), (2, 1.0), (3, 1.5)]
    assert seen[0].at_ms < seen[2].at_ms, "when it was measured, not when it was sent"
    assert any(one.name == "system/cpu_utilization_percentage" for one, _ in entry.readings())
    logs = tmp_path / "logs" / "v"
    logs.mkdir(parents=True)
    for step in (4, 5):
        curves.record(step, {"loss": step / 2})
    (logs / "train.csv").write_text(curves.path.with_suffix(".csv").read_text())
    recorder.finish(entry, records.read(tmp_path, "train@v", LOCK))
    recorder.send()
    assert history(tracking_uri, recorder.runs[entry.identity], "train/loss") == [(step, step / 2) for step in range(1, 6)]


@pytest.mark.long
def test_a_tracker_that_hangs_slows_neither_the_training_nor_the_flow(
    toy: Path, impatient: None, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every request hangs for a minute. The flow waits once, for the stage's run, and never again; the training's curve is written meanwhile."""
    (toy / "dvc.lock").write_text("schema: '2.0'\nstages:\n  train@v: {cmd: x, outs: [{path: logs/v, md5: a}]}\n")

    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "60")
    monkeypatch.setattr("rlver.tasks.tracking.provenance.PATIENCE_S", 1.0)
    MlflowRecorder(toy, "sqlite:///x.db", "reference").begin("warm")  # the imports of the first call
    with hanging() as (url, asked):
        provenance = Provenance(toy, url, None, logging.getLogger("flow"))
        began = time.perf_counter()
        provenance.begins("train@v")
        provenance._ask(lambda: None)
        begun = time.perf_counter() - began
        curves = CurveFile(toy / "scratch" / f"v-{'0' * 12}" / "curves" / "train")
        for step in range(150):
            curves.record(step, {f"quantity_{number}": step / 7 for number in range(20)})
        written = time.perf_counter() - began
        began = time.perf_counter()
        provenance.of_run("train@v")
        ended = time.perf_counter() - began
        assert asked.wait(timeout=60), "the tracker was asked, and hangs"
        entry = provenance._recorder.spool.entries()[-1]
        assert entry.end is not None and entry.end.status == "FINISHED", "it waits in the spool"
        assert [one.startswith("train@v: MLflow did not answer within 1 s") for one in caplog.messages] == [True], "waited for once"
    assert max(begun, written, ended) < 40, "whoever waits for the tracker waits a minute"


@pytest.mark.slow
def test_a_server_killed_in_a_stream_of_metrics_has_each_of_them_once_in_the_end(
    tmp_path: Path, tracking_uri: str, impatient: None
) -> None:
    """A real server over SQLite dies by SIGKILL while 40 batches are under way; a second one gets the rest."""
    environment.prepare(tmp_path)
    port = servers.free_port()
    steps = 40_000
    with servers.mlflow(tmp_path, tracking_uri, port) as server:
        recorder = MlflowRecorder(tmp_path, server.url, "reference")
        entry = recorder.begin("train@v")
        entry.add(readings(0, steps))
        total = (entry.folder / "points.jsonl").stat().st_size
        failures: list[Exception] = []

        def send() -> None:
            try:
                recorder.send()
            except TrackingUnavailable as error:
                failures.append(error)

        sending = threading.Thread(target=send)
        sending.start()
        wait_until(lambda: entry.sent[1] > total // 8)
        os.killpg(server.process.pid, signal.SIGKILL)
        sending.join(timeout=120)
        assert len(failures) == 1 and "\n" not in str(failures[0])
        run, upto = entry.sent
        assert 0 < upto < total, "it died in the middle"
        entry.add(readings(steps, steps + 100))  # the stage goes on measuring
    with servers.mlflow(tmp_path, tracking_uri, port):
        recorder.finish(entry, records.read(tmp_path, "train@v", LOCK))
        recorder.send()
        recorder.close()
    assert run is not None and history(tracking_uri, run, "train/loss") == [(step, step / 2) for step in range(steps + 100)]
    from mlflow import MlflowClient

    runs = {one.info.run_name.partition(" ")[0]: one.info.status for one in MlflowClient(tracking_uri=tracking_uri).search_runs(["1"])}
    assert runs == {"pipeline": "FINISHED", "train@v": "FINISHED"} and not recorder.spool.entries()


@contextmanager
def hanging() -> Iterator[tuple[str, threading.Event]]:
    """A server that takes every request and answers none for a minute, and whether it was asked."""
    asked, over = threading.Event(), threading.Event()

    class Sleeps(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.set()
            over.wait(60)
            self.send_response(503)
            self.end_headers()
            self.wfile.write(json.dumps({}).encode())

        do_POST = do_GET

        def log_message(self, *_: object) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Sleeps) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", asked
        finally:
            over.set()
            server.shutdown()


def wait_until(condition: object, limit_s: float = 60.0) -> None:
    end = time.monotonic() + limit_s
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.02)


def test_an_entry_of_another_version_keeps_no_other_from_being_sent(tmp_path: Path, tracking_uri: str) -> None:
    from mlflow import MlflowClient

    recorder = MlflowRecorder(tmp_path, tracking_uri, "reference")
    old, new = recorder.begin("train@old"), recorder.begin("train@new")
    head = old.folder / "head.json"
    head.write_text(json.dumps({**json.loads(head.read_text()), "colour": "red"}))
    with pytest.raises(
        BadFile, match=f"{old.folder.name} was written by another version of rlver .*colour.*; send it with that one, or delete it"
    ):
        recorder.send()
    assert [one.info.run_name for one in MlflowClient(tracking_uri=tracking_uri).search_runs(["1"])].count("train@new") == 1
    assert new.exists and old.folder.is_dir()


def test_a_bug_with_one_entry_keeps_no_other_from_being_sent(tmp_path: Path, tracking_uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from mlflow import MlflowClient

    send = MlflowRecorder._send

    def broken(self: MlflowRecorder, entry: SpoolEntry) -> None:
        if entry.head.name == "train@old":
            raise KeyError("seed")
        send(self, entry)

    monkeypatch.setattr(MlflowRecorder, "_send", broken)
    recorder = MlflowRecorder(tmp_path, tracking_uri, "reference")
    recorder.begin("train@old")
    recorder.begin("train@new")
    with pytest.raises(TrackingUnavailable, match="KeyError: 'seed'"):
        recorder.send()
    names = [one.info.run_name for one in MlflowClient(tracking_uri=tracking_uri).search_runs(["1"])]
    assert "train@new" in names and "train@old" not in names


@pytest.mark.parametrize("how", ["on the page", "for good", "with the pipeline's, which was sent already"])
def test_runs_that_somebody_deleted_hold_up_nothing(finished: Path, tracking_uri: str, how: str) -> None:
    """What failed or was killed is forgotten. What finished becomes a new run, all of it."""
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=tracking_uri)
    recorder = MlflowRecorder(finished, tracking_uri, "reference")
    killed, forgotten, ended = recorder.begin("train@w"), recorder.begin("report"), recorder.begin("score@v")
    ended.add(readings(0, 3))
    recorder.send()
    ended.add(readings(3, 5))
    for run in client.search_runs(["1"]):
        client.delete_run(run.info.run_id)
        if how == "for good":  # as `mlflow gc` does
            client._tracking_client.store._hard_delete_run(run.info.run_id)
    recorder.fail(killed, "interrupted", "KILLED")
    forgotten.close("FINISHED", forget=True)
    recorder.finish(ended, records.read(finished, "score@v", LOCK))
    recorder.end("KILLED")
    if how.startswith("with"):
        recorder.spool.entries()[0].remove()

    later = MlflowRecorder(finished, tracking_uri, "reference")
    later.send()
    assert not later.spool.entries()
    runs = {one.info.run_name.partition(" ")[0]: one for one in client.search_runs(["1"])}
    score, pipeline = runs.pop("score@v"), runs.pop("pipeline", None)
    assert score.info.status == "FINISHED" and score.data.metrics["emotion_mean"] == 50.5 and not runs
    assert history(tracking_uri, score.info.run_id, "train/loss") == [(step, step / 2) for step in range(5)]
    assert score.data.tags.get("mlflow.parentRunId") == (pipeline and pipeline.info.run_id)
    assert (pipeline is None) == how.startswith("with")
