"""A sweep as DVC experiments: every combination, the results side by side, and what is refused."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from served import processes_with, wait_for

from rlver.components.domain.files import BadFile, read_yaml
from rlver.tasks.graph import experiments
from rlver.tasks.graph.experiments import SweepError, read_sweep
from rlver.tasks.tracking.experiments import log_experiment
from rlver.tasks.tracking.store import TrackingUnavailable

SWEEP = "params.yaml:train.steps: [2, 0.00002]\nparams/a.yaml:train.beta: [5]\n"


@pytest.fixture
def swept(toy: Path) -> Path:
    """The toy project with a sweep, whose stage `train` writes the parameters it got as its score."""
    (toy / "params" / "sweeps").mkdir()
    (toy / "params" / "sweeps" / "s.yaml").write_text(SWEEP)
    (toy / "score.py").write_text(
        "import json, pathlib\n"
        "from ruamel.yaml import YAML\n"
        "read = lambda p: YAML(typ='safe').load(open(p))['train']\n"
        "steps, beta = read('params.yaml')['steps'], read('params/a.yaml').get('beta', 0)\n"
        "assert steps != 13, 'unlucky'\n"
        "for folder in ('metrics/a', 'logs/a'):\n"
        "    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)\n"
        "pathlib.Path('logs/a/train.csv').write_text(f'step,reward\\n0,1\\n1,{steps}\\n')\n"
        "json.dump({'emotion_mean': steps + 10 * beta, 'emotion_ci95': {'lo': 40, 'hi': 60}}, open('metrics/a/sentient.json', 'w'))\n"
    )
    (toy / "dvc.yaml").write_text(
        "stages:\n  score:\n    cmd: python score.py\n    deps: [score.py]\n    params:\n      - train\n      - params/a.yaml:\n"
        "    outs:\n      - logs/a\n    metrics:\n      - metrics/a/sentient.json: {cache: false}\n"
    )
    for command in ("git add -A", "git -c user.name=T -c user.email=t@example.org commit -qm sweep"):
        subprocess.run(command.split(), cwd=toy, check=True)
    return toy


def test_every_combination_in_the_order_of_the_file(swept: Path) -> None:
    assert [(e.name, e.settings) for e in read_sweep(swept, "s")] == [
        ("s-1", {"params.yaml:train.steps": 2, "params/a.yaml:train.beta": 5}),
        ("s-2", {"params.yaml:train.steps": 2e-05, "params/a.yaml:train.beta": 5}),
    ]


@pytest.mark.slow
def test_a_sweep_runs_each_in_a_worktree_and_shows_them_side_by_side(
    swept: Path, prefect_server: None, tracking_uri: str, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from rlver.flows.sweep import sweep

    state = sweep("s", return_state=True)
    assert state.is_completed(), state.message
    shown = "\n".join(said)
    assert "| s-1 | 2 | 5 | 52.0 [40.0, 60.0] |" in shown and "| s-2 | 2e-05 | 5 | 50.0 [40.0, 60.0] |" in shown
    assert "of test personas" in shown
    assert "steps: 2}" in (swept / "params.yaml").read_text(), "the folder itself stays as it was"
    assert not (swept / "metrics").exists()
    runs = _runs(tracking_uri)
    assert {run["tags.dvc_experiment"] for run in runs} == {"s-1", "s-2"} and len(runs) == 4, "of each its stage, and the pipeline it is of"
    (first,) = (run for run in runs if run["tags.dvc_experiment"] == "s-1" and run["tags.stage"] == "score")
    assert (first["params.train.beta"], first["metrics.emotion_mean"]) == ("5", 52)
    assert first["metrics.train/reward"] == 2, "the curve lay in DVC's cache only"
    assert not list((swept / "scratch").rglob("params.yaml")) and "experiments" not in _said(swept, "git", "worktree", "list")
    assert log_experiment(swept, tracking_uri, "s-1") == "s-1: 1 stages are in MLflow, 0 of them logged now"
    with pytest.raises(SweepError, match="there is no experiment s-9"):
        log_experiment(swept, tracking_uri, "s-9")

    (swept / "params" / "sweeps" / "s.yaml").write_text("params.yaml:train.steps: [13, 3]\n")
    state = sweep("s", return_state=True)
    assert state.is_failed() and "1 of 2 experiments failed: s-1" in (state.message or "")
    assert "| s-1 | 13 | failed |" in "\n".join(said)

    (swept / "metrics" / "a").mkdir(parents=True)  # committed, as operations.md says: DVC shows a failed experiment with them
    (swept / "metrics" / "a" / "sentient.json").write_text('{"emotion_mean": 99}')
    for command in ("git add -A", "git -c user.name=T -c user.email=t@example.org commit -qm metrics"):
        subprocess.run(command.split(), cwd=swept, check=True)
    said.clear()
    assert sweep("s", return_state=True).is_failed()
    assert "| s-1 | 13 | failed |" in "\n".join(said) and "| s-2 | 3 | 3.0 [40.0, 60.0] |" in "\n".join(said)
    assert log_experiment(swept, tracking_uri, "s-2").startswith("s-2: 1 stages"), "of two of this name that of the commit checked out"
    began_from = experiments.checked_out(swept)
    subprocess.run(
        ["git", "-c", "user.name=T", "-c", "user.email=t@example.org", "commit", "-q", "--allow-empty", "-m", "later"],
        cwd=swept,
        check=True,
    )
    assert set(experiments.results(swept, read_sweep(swept, "s"), began_from)) == {"s-2"}, "a commit made during a sweep hides nothing"
    assert log_experiment(swept, tracking_uri, "s-2", began_from).startswith("s-2: 1 stages")
    with pytest.raises(SweepError, match="2 experiments are called s-2: check out the commit"):
        log_experiment(swept, tracking_uri, "s-2")


@pytest.mark.slow
def test_an_experiment_that_could_not_be_logged_is_logged_later(swept: Path, tracking_uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its results are safe in git and DVC; what was begun in MLflow is gone on with."""
    experiments.run_sweep(swept, read_sweep(swept, "s")[:1], print)
    with monkeypatch.context() as broken:
        broken.setattr("rlver.tasks.tracking.recorder.fill", _no_tracker)
        with pytest.raises(TrackingUnavailable):
            log_experiment(swept, tracking_uri, "s-1")
    assert (begun := _runs(tracking_uri)) and log_experiment(swept, tracking_uri, "s-1").endswith(", 1 of them logged now")
    ended = _runs(tracking_uri)
    assert {run["run_id"] for run in begun} <= {run["run_id"] for run in ended}
    assert [run["status"] for run in ended] == ["FINISHED"] * 2, "the stage and its pipeline run"


def _no_tracker(*_: object) -> None:
    raise TrackingUnavailable("MLflow: gone")


def _runs(uri: str) -> list[dict[str, Any]]:
    import mlflow

    mlflow.set_tracking_uri(uri)
    return mlflow.search_runs(search_all_experiments=True).to_dict("records")


def _said(folder: Path, *command: str) -> str:
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout


def test_people_that_no_experiment_would_have_are_told_first(swept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parameters = read_yaml(swept / "params.yaml")
    (swept / "params.yaml").write_text(json.dumps({**parameters, "personas": {"imported_train": "imported/mine.jsonl"}}))
    with pytest.raises(SweepError, match=r"`dvc add imported/mine\.jsonl`"):
        experiments.run_sweep(swept, read_sweep(swept, "s"), print)
    said: list[str] = []
    monkeypatch.setattr(experiments, "_dvc", lambda root, arguments, on_line=None: said.append(arguments[0]) or [])
    (swept / "imported").mkdir()
    (swept / "imported" / "mine.jsonl").write_text("{}\n")
    subprocess.run(["git", "add", "-f", "imported/mine.jsonl"], cwd=swept, check=True)
    experiments.run_sweep(swept, read_sweep(swept, "s"), print)
    assert said, "git has them"


@pytest.mark.slow
def test_a_queue_with_somebody_elses_experiments_is_left_alone(swept: Path, prefect_server: None, tracking_uri: str) -> None:
    from rlver.flows.sweep import sweep

    def dvc(*arguments: str) -> str:
        return subprocess.run(("dvc", *arguments), cwd=swept, capture_output=True, text=True, check=True).stdout

    dvc("exp", "run", "--queue", "--name", "mine", "-S", "params.yaml:train.steps=4")
    state = sweep("s", return_state=True)
    assert state.is_failed() and (state.message or "").startswith("DVC's queue holds 1 other experiments: wait for them")
    assert "mine" in dvc("queue", "status")


def test_a_sweep_that_ends_early_interrupts_its_experiment_before_dvc_kills_its_own_process(
    swept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    states = iter(["", "d1e2f3a  s-1  01:02 PM  Running", "d1e2f3a  s-1  01:02 PM  Running", "d1e2f3a  s-1  01:02 PM  Success"])

    def dvc(_root: Path, arguments: list[str], _on_line: object = None) -> list[str]:
        if arguments == ["queue", "status"]:
            return ["Task     Name  Created   Status", next(states)]
        said.append(" ".join(arguments))
        if "--run-all" in arguments:
            raise KeyboardInterrupt
        return []

    monkeypatch.setattr(experiments, "_dvc", dvc)
    with pytest.raises(KeyboardInterrupt):
        experiments.run_sweep(swept, read_sweep(swept, "s"), print)
    ended = said[said.index("exp run --run-all --jobs 1") + 1 :]
    assert ended == ["queue remove --queued", "queue kill s-1", "queue stop --kill"]
    assert not list(states), "it waited for the stage to end"


@pytest.mark.slow
def test_a_sweep_that_ends_early_leaves_no_stage_behind(swept: Path) -> None:
    (swept / "score.py").write_text("import subprocess\nsubprocess.run(['sleep', '118.5'])\n")
    for command in ("git add -A", "git -c user.name=T -c user.email=t@example.org commit -qm slow"):
        subprocess.run(command.split(), cwd=swept, check=True)
    sweeping = "import sys, pathlib; from rlver.tasks.graph.experiments import *; at = pathlib.Path.cwd(); run_sweep(at, read_sweep(at, 's'), print)"
    with subprocess.Popen([sys.executable, "-c", sweeping], cwd=swept) as process:
        wait_for(lambda: processes_with(b"sleep\x00118.5"), 120)
        process.send_signal(signal.SIGINT)
    assert not processes_with(b"sleep\x00118.5")
    assert "Running" not in _said(swept, "dvc", "queue", "status") and "Queued" not in _said(swept, "dvc", "queue", "status")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("train.steps: [1]\n", "write file:key"),
        ("params/none.yaml:train.steps: [1]\n", "of a file that exists"),
        ("params.yaml:train.steps: 3\n", "give a list of single values"),
        ("params.yaml:train.steps: []\n", "give a list of single values"),
    ],
)
def test_a_table_that_cannot_be_run_is_refused(toy: Path, text: str, message: str) -> None:
    (toy / "params" / "sweeps").mkdir()
    (toy / "params" / "sweeps" / "s.yaml").write_text(text)
    with pytest.raises(BadFile, match=message):
        read_sweep(toy, "s")


def test_an_unknown_sweep_says_which_there_are(toy: Path) -> None:
    with pytest.raises(SweepError, match=r"there is no sweep z \(params/sweeps/z\.yaml\); there is none"):
        read_sweep(toy, "z")


def test_the_projects_own_sweeps_name_settings_that_exist(repository_root: Path) -> None:
    from rlver.components.domain.files import read_yaml

    assert experiments.names(repository_root)
    for name in experiments.names(repository_root):
        for key in read_sweep(repository_root, name)[0].settings:
            file, _, dotted = key.partition(":")
            value = read_yaml(repository_root / file)
            for part in dotted.split("."):
                assert part in value, f"{name}: {key}"
                value = value[part]
