"""Promotion with a real registry: the first champion, a better one, a worse one, rollback, and a move that breaks half-way."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from evidence import ALARMED, CLEAN, dialogues, general
from ruamel.yaml import YAML

from components.evaluation.sentient import sentient_metrics
from components.files import write_json, write_jsonl
from tasks import dvc, records
from tasks.registry import Registry, RegistryError
from tasks.tracking import MlflowRecorder, log_pipeline

GAINS = {"base": [0, 1, 2, 3] * 10, "a": [4, 5, 6, 7] * 10, "b": [7, 8, 9, 10] * 10}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, repository_root: Path) -> Path:
    """A finished pipeline of the variants a and b, b the better one. Its stages copy what is made here."""
    root = tmp_path_factory.mktemp("finished")
    (root / "params").mkdir()
    (root / "params.yaml").write_bytes((repository_root / "params.yaml").read_bytes())
    write_jsonl(root / "made" / "personas" / "personas.jsonl", [{"persona_id": "p0"}])
    for name in GAINS:
        (root / "params" / f"{name}.yaml").write_text("evaluation: {bootstrap_samples: 500}\n")
        talks = dialogues(name, GAINS[name])
        write_json(root / "made" / name / "config.json", {"name": name})
        write_jsonl(root / "made" / name / f"{name}.jsonl", [talk.model_dump(mode="json") for talk in talks])
        write_json(root / "made" / name / "sentient.json", sentient_metrics(talks, dialogues("base", GAINS["base"]), 200, 7))
        write_json(root / "made" / name / "general.json", general(100))
    write_json(root / "reports" / "audit.json", dict.fromkeys(GAINS, CLEAN))
    graph: dict[str, Any] = {"stages": {"personas": _copies("personas", "data/personas.jsonl", [])}}
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


@pytest.fixture
def project(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tracking_uri: str) -> Path:
    """That pipeline in a folder of its own, recorded in MLflow, and the current directory."""
    root = tmp_path / "project"
    shutil.copytree(finished, root, symlinks=True)
    monkeypatch.chdir(root)
    lock = dvc.locked(root)
    with MlflowRecorder(root, tracking_uri, "full") as recorder:
        log_pipeline(recorder, [records.read(root, f"train@{name}", lock) for name in GAINS])
    return root


def _copies(name: str, to: str, deps: list[str]) -> dict[str, Any]:
    folder, _, file = to.rpartition("/")
    is_model = folder.startswith("models/")
    return {"cmd": f"mkdir -p {folder} && cp made/{name}/{file} {to}", "deps": deps, "outs": [folder if is_model else to]}


def promote(variant: str, **options: bool) -> tuple[str, str]:
    """The name of the flow's state and its message."""
    from flows.promote import promote as flow

    state = flow(variant, return_state=True, **options)
    return state.name, state.message or ""


def test_champions_follow_each_other_and_step_back(project: Path, prefect_server: None, tracking_uri: str):
    registry = Registry(tracking_uri)
    assert registry.champion() is None
    with pytest.raises(RegistryError, match="there is no champion"):
        registry.roll_back()

    assert promote("b", only_judge=True) == ("Judged", "b may be promoted")
    assert registry.champion() is None

    assert promote("a") == ("Completed", "version 1 (a) is the champion")
    assert promote("a") == ("Unchanged", "a is the champion already: version 1 (a)")
    assert promote("b") == ("Completed", "version 2 (b) is the champion, before it version 1 (a)")
    name, why = promote("a")
    assert name == "Refused" and why.startswith("gain over b: 48.5 → 45.5, paired -3.0")

    assert [str(version) for version in registry.roll_back()] == ["version 2 (b)", "version 1 (a)"]
    assert str(registry.champion()) == "version 1 (a)"
    with pytest.raises(RegistryError, match="nothing to go back to"):
        registry.roll_back()


def test_a_version_has_its_card_its_evidence_and_its_model(project: Path, prefect_server: None, tracking_uri: str):
    import mlflow
    from mlflow import MlflowClient
    from mlflow.artifacts import download_artifacts

    promote("a")
    client = MlflowClient(tracking_uri=tracking_uri)
    version = client.get_model_version_by_alias("rlver-policy", "champion")
    assert version.tags["variant"] == "a" and version.tags["md5"] == dvc.locked(project)["train@a"].outputs["models/a"]
    card = version.description
    for words in ("# a", "final emotion 45.5 [", "gain over base", "Apache-2.0", "train.algorithm", "data/personas.jsonl (MD5"):
        assert words in card
    evidence = Registry(tracking_uri).evidence(Registry(tracking_uri).champion())  # type: ignore[arg-type]
    assert len(evidence.dialogues) == 40 and evidence.general == general(100) and evidence.audit == CLEAN
    mlflow.set_tracking_uri(tracking_uri)  # an alias is looked up in the store of the process
    model = Path(download_artifacts("models:/rlver-policy@champion"))
    assert (model / "MLmodel").is_file() and [file.name for file in (model / "artifacts" / "policy").iterdir()] == ["config.json"]


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (lambda root: write_json(root / "reports" / "audit.json", {"a": ALARMED}), "hacking audit: alarm; alarm: stock phrases"),
        (lambda root: (root / "reports" / "audit.json").unlink(), "a was not audited: run `rlver run --only report`"),
        (lambda root: (root / "models" / "a" / "config.json").write_text("{}"), "out of date: benchmark@a, converse@a"),
    ],
)
def test_an_alarm_a_gap_or_a_stale_stage_keeps_it_out(project: Path, prefect_server: None, tracking_uri: str, break_it: Any, message: str):
    break_it(project)
    name, why = promote("a")
    assert name in ("Refused", "Failed") and message in why
    assert Registry(tracking_uri).champion() is None


def test_an_unknown_variant_is_one_line(project: Path, prefect_server: None):
    assert promote("z") == ("Failed", "z is not a trained variant of dvc.yaml; there is a, b, base")


def test_a_move_that_breaks_leaves_no_version(project: Path, prefect_server: None, tracking_uri: str, monkeypatch: pytest.MonkeyPatch):
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    promote("a")

    def breaks(*_: Any) -> None:
        raise MlflowException("the server went away")

    monkeypatch.setattr(MlflowClient, "set_registered_model_alias", breaks)
    assert promote("b") == ("Failed", "MLflow: the server went away")
    monkeypatch.undo()
    registry = Registry(tracking_uri)
    assert str(registry.champion()) == "version 1 (a)"
    versions = MlflowClient(tracking_uri=tracking_uri).search_model_versions("name = 'rlver-policy'")
    assert [version.version for version in versions] == [1]
