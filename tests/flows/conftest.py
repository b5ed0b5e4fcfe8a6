"""One Prefect server for all flow tests of the run, what flows log, and a pipeline with something to promote."""

from __future__ import annotations

import logging
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from evidence import CLEAN, dialogues, general
from ruamel.yaml import YAML

from rlver.components.domain.files import write_json, write_jsonl
from rlver.components.scoring.sentient import sentient_metrics
from rlver.components.scoring.units import Sampling
from rlver.tasks.graph import dvc
from rlver.tasks.tracking import records
from rlver.tasks.tracking.recorder import MlflowRecorder, log_pipeline

GAINS = {"base": [0, 1, 2, 3] * 10, "a": [4, 5, 6, 7] * 10, "b": [7, 8, 9, 10] * 10}


@pytest.fixture(scope="session")
def prefect_server() -> Iterator[None]:
    from prefect.testing.utilities import prefect_test_harness

    with prefect_test_harness(server_startup_timeout=180):
        yield


class _Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        run = getattr(record, "task_run_name", None) or "flow"
        self.lines.append(f"{run}: {record.getMessage()}" + ("\nTraceback" if record.exc_info else ""))


@pytest.fixture
def said(prefect_server: None) -> Iterator[list[str]]:
    """The log lines of flow and task runs, each after its task's name or `flow`."""
    from prefect.logging.configuration import setup_logging

    setup_logging()
    handler = _Lines()
    loggers = [logging.getLogger(name) for name in ("prefect.flow_runs", "prefect.task_runs")]
    for logger in loggers:
        logger.addHandler(handler)
    yield handler.lines
    for logger in loggers:
        logger.removeHandler(handler)


@pytest.fixture(scope="session")
def _finished(tmp_path_factory: pytest.TempPathFactory, repository_root: Path) -> Path:
    """A finished pipeline of the variants a and b, b the better one. Its stages copy what lies in made/."""
    root = tmp_path_factory.mktemp("finished")
    (root / "params").mkdir()
    (root / "params.yaml").write_bytes((repository_root / "params.yaml").read_bytes())
    write_jsonl(root / "made" / "personas" / "personas.jsonl", [{"persona_id": "p0"}])
    for name in GAINS:
        (root / "params" / f"{name}.yaml").write_text("evaluation: {bootstrap_samples: 500}\n")
        talks = dialogues(name, GAINS[name])
        write_json(root / "made" / name / "config.json", {"name": name})
        write_jsonl(root / "made" / name / f"{name}.jsonl", [talk.model_dump(mode="json") for talk in talks])
        write_json(root / "made" / name / "sentient.json", sentient_metrics(talks, dialogues("base", GAINS["base"]), Sampling(200, 7)))
        write_json(root / "made" / name / "general.json", general(100))
    write_json(root / "made" / "report" / "audit.json", dict.fromkeys(GAINS, CLEAN))
    graph: dict[str, Any] = {
        "stages": {
            "personas": _copies("personas", "data/personas.jsonl", []),
            "report": _copies("report", "reports/audit.json", ["made/report", *(f"transcripts/{name}.jsonl" for name in GAINS)]),
        }
    }
    for group, to, needs in (
        ("train", "models/${item}/config.json", "data/personas.jsonl"),
        ("converse", "transcripts/${item}.jsonl", "models/${item}"),
        ("score", "metrics/${item}/sentient.json", "transcripts/${item}.jsonl"),
        ("benchmark", "metrics/${item}/general.json", "models/${item}"),
    ):
        graph["stages"][group] = {
            "foreach": {name: name for name in GAINS},
            "do": {**_copies("${item}", to, [needs]), "params": ["seed", "train"]},
        }
    with (root / "dvc.yaml").open("w") as file:
        YAML().dump(graph, file)
    for command in (("git", "init", "-q"), (sys.executable, "-m", "dvc", "init", "-q"), (sys.executable, "-m", "dvc", "repro", "-q")):
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    return root


def _copies(name: str, to: str, deps: list[str]) -> dict[str, Any]:
    folder, _, file = to.rpartition("/")
    whole = folder.startswith(("models/", "reports"))
    return {"cmd": f"mkdir -p {folder} && cp made/{name}/{file} {to}", "deps": deps, "outs": [folder if whole else to]}


@pytest.fixture(scope="session")
def _recorded(_finished: Path, _tracking_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`project` is that pipeline with its trainings in MLflow, `kept` and `mlflow.db` are what it is made of again for each test."""
    folder = tmp_path_factory.mktemp("recorded")
    root, database = folder / "project", folder / "mlflow.db"
    shutil.copytree(_finished, root, symlinks=True)
    shutil.copy(_tracking_template, database)
    lock = dvc.locked(root)
    with MlflowRecorder(root, f"sqlite:///{database}", "full") as recorder:
        log_pipeline(recorder, [records.read(root, f"train@{name}", lock) for name in GAINS])
    root.rename(folder / "kept")
    return folder


@pytest.fixture
def promotable(_recorded: Path, monkeypatch: pytest.MonkeyPatch, tracking_uri: str) -> Path:
    """That pipeline as new, recorded in MLflow, and the current directory: always in the folder that MLflow has noted of its models."""
    root = _recorded / "project"
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(_recorded / "kept", root, symlinks=True)
    shutil.copy(_recorded / "mlflow.db", tracking_uri.removeprefix("sqlite:///"))
    monkeypatch.chdir(root)
    return root
