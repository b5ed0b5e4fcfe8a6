from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from completions_server import completions_server
from ruamel.yaml import YAML

from rlver.components.ability.noninferiority import read_general
from rlver.tasks.runtime.stage import run_stage
from rlver.tasks.stages import benchmark

ROOT = Path(__file__).parents[3]


def run(folder: Path, model: Path) -> int:
    arguments = ["--variant", "base", "--model", str(model), "--out", str(folder / "general.json"), "--params", str(folder / "params.yaml")]
    return run_stage(lambda: benchmark.main(arguments))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    shutil.copy(ROOT / "params.yaml", tmp_path / "params.yaml")
    shutil.copytree(ROOT / "params", tmp_path / "params")
    return tmp_path


@pytest.mark.long
def test_the_tasks_of_the_parameters_are_run(project: Path, tiny_model: Path):
    assert run(project, tiny_model) == 0
    first = (project / "general.json").read_bytes()
    results = json.loads(first)
    assert set(results["tasks"]) == {"rlver_tiny_likelihood", "rlver_tiny_choice"}
    assert all(task["margin"] == 0.05 for task in results["tasks"].values())
    assert len(results["settings_digest"]) == 12
    assert not any("items" in task for task in results["tasks"].values()), "hashes are no metrics"
    together = read_general(project / "general.json")
    assert all(
        len(task["items"]) == task["n"] and {"doc", "prompt", "score"} <= set(task["items"][0]) for task in together["tasks"].values()
    )
    assert run(project, tiny_model) == 0
    assert (project / "general.json").read_bytes() == first


def test_a_missing_model_is_one_line_and_writes_nothing(project: Path, capsys: pytest.CaptureFixture[str]):
    assert run(project, project / "nowhere") == 1
    error = capsys.readouterr().err
    assert "nowhere: no model there" in error and error.count("\n") == 1
    assert not (project / "general.json").exists()


def set_benchmark(project: Path, **values: object) -> None:
    params = YAML().load((project / "params.yaml").read_text())
    params["benchmark"].update(values)
    with (project / "params.yaml").open("w") as file:
        YAML().dump(params, file)


def test_lm_evals_own_files_lie_beside_ours(project: Path, tiny_model: Path):
    set_benchmark(project, tasks=["rlver_tiny_choice"], limit=4)
    assert run(project, tiny_model) == 0
    assert sorted(path.name.split("_2")[0] for path in (project / "general.lm_eval").glob("*/*")) == [
        "results",
        "samples_rlver_tiny_choice",
    ]
    choice = json.loads((project / "general.json").read_text())["tasks"]["rlver_tiny_choice"]
    assert set(choice["metrics"]["acc"]["none"]) == {"value", "stderr", "clustered_ci95", "n", "higher_is_better"}


def test_the_parameters_name_the_server_and_the_key_stays_with_its_own(project: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(project)
    (project / "dvc.yaml").write_text("stages: {}\n")
    monkeypatch.setenv("RLVER_POLICY_KEY", "sk-0123456789abcdef0123")
    with completions_server(tiny_model) as server:
        set_benchmark(project, tasks=["rlver_tiny_choice"], limit=4, backend="local-completions", base_url=server.url)
        monkeypatch.setenv("RLVER_POLICY_URL", "http://127.0.0.1:9/v1")
        assert run(project, tiny_model) == 0
        assert set(server.authorizations) == {None}, "the key was set for another address"
        server.authorizations.clear()
        monkeypatch.setenv("RLVER_POLICY_URL", server.url)
        assert run(project, tiny_model) == 0
        assert set(server.authorizations) == {"Bearer sk-0123456789abcdef0123"}
    assert json.loads((project / "general.json").read_text())["backend"] == "local-completions"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"backend": "gguf"}, "benchmark.backend"),
        ({"base_url": "http://127.0.0.1:1/v1"}, "benchmark.base_url is for benchmark.backend: local-completions, not hf"),
        ({"backend": "local-completions", "base_url": "http://me:secret@host/v1"}, "must hold no user, password or query"),
    ],
)
def test_a_setting_that_cannot_work_is_refused_first(
    project: Path, tiny_model: Path, capsys: pytest.CaptureFixture[str], values: dict[str, str], message: str
):
    set_benchmark(project, **values)
    assert run(project, tiny_model) == 1
    said = capsys.readouterr().err
    assert message in said and "secret@" not in said


def test_a_budget_that_would_not_be_kept_is_refused(
    project: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(project)
    (project / "dvc.yaml").write_text("stages: {}\n")
    monkeypatch.setenv("RLVER_BUDGET", "1")
    set_benchmark(project, backend="local-completions", base_url="http://127.0.0.1:9/v1")
    assert run(project, tiny_model) == 1
    assert "are not counted" in capsys.readouterr().err
