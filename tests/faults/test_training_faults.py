"""What can happen to a training from outside: it is asked to leave, it is started twice, its files are damaged."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from small_project import REPOSITORY, make_base, make_project, start_training, train_arguments, weights

from rlver.components.domain.files import InUse, exclusive_lock
from rlver.components.training.curves import CurveFile
from rlver.tasks.runtime.checkpoints import LEAVE_S, latest_intact_checkpoint
from rlver.tasks.runtime.stage import run_stage
from rlver.tasks.stages import train

pytestmark = pytest.mark.slow
ALLOWED_S = 10.0
STEPS = 40


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run `whole` that nobody disturbed."""
    root = tmp_path_factory.mktemp("training")
    make_project(root, steps=STEPS, save_every=10, evaluate_every=20)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        make_base(root)
        assert train.main(train_arguments("whole")) == 0
    return root


@pytest.fixture
def project(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "project"
    shutil.copytree(trained, root)
    monkeypatch.chdir(root)
    return root


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 300
    while not condition():
        assert process.poll() is None, f"it ended with {process.returncode}"
        assert time.monotonic() < end
        time.sleep(0.05)


def steps_done(root: Path, name: str) -> int:
    rows = [row for path in root.glob(f"scratch/{name}/*/curves/train.jsonl") for row in CurveFile(path.with_suffix("")).rows()]
    return int(max((row["step"] for row in rows), default=0))


def begun_like_whole(root: Path, name: str) -> None:
    """The scratch folder of the finished run, as if it were that of the run `name`."""
    (whole,) = (root / "scratch" / "whole").iterdir()
    shutil.copytree(whole, root / "scratch" / name / whole.name.replace("whole", name))


def assert_as_undisturbed(root: Path, name: str) -> None:
    torch.testing.assert_close(weights(root / "models" / name), weights(root / "models" / "whole"), atol=1e-6, rtol=0)
    for curve in ("train", "evaluation"):
        rows, expected = (CurveFile(root / "logs" / one / curve).rows() for one in (name, "whole"))
        assert [row["step"] for row in rows] == [row["step"] for row in expected]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_training_that_is_asked_to_leave_saves_its_last_step_and_is_gone_within_ten_seconds(number: int, project: Path) -> None:
    process = start_training(project, {**os.environ, "HF_HUB_OFFLINE": "1"}, "asked")
    wait_for(lambda: steps_done(project, "asked") >= 3, process)
    began = time.monotonic()
    process.send_signal(number)
    assert process.wait(timeout=60) == 130
    assert time.monotonic() - began < ALLOWED_S
    (checkpoints,) = project.glob("scratch/asked/*/checkpoints")
    saved, damaged = latest_intact_checkpoint(checkpoints)
    assert saved and saved.name == f"checkpoint-{steps_done(project, 'asked')}" and not damaged, "every finished step is kept"
    assert not (project / "models" / "asked" / "model.safetensors").exists()
    assert train.main(train_arguments("asked")) == 0
    assert_as_undisturbed(project, "asked")


def test_a_step_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    from rlver.tasks.runtime import checkpoints

    monkeypatch.setattr(checkpoints, "LEAVE_S", 0.2)
    leaves = checkpoints.StopsOnSignal(updates_per_batch=1)
    with leaves.listening():
        os.kill(os.getpid(), signal.SIGTERM)
        assert leaves.asked, "the first signal only asks"
        with pytest.raises(KeyboardInterrupt):
            time.sleep(5)
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0) and LEAVE_S < ALLOWED_S


@pytest.mark.parametrize("damage", ["cut off", "empty", "bytes", "gone", "state"])
def test_of_a_damaged_checkpoint_the_one_before_is_resumed(damage: str, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    begun_like_whole(project, "hurt")
    (newest,) = project.glob(f"scratch/hurt/*/checkpoints/checkpoint-{STEPS}")
    optimizer, state, model = newest / "optimizer.pt", newest / "trainer_state.json", newest / "model.safetensors"
    content = optimizer.read_bytes()
    if damage == "cut off":
        model.write_bytes(model.read_bytes()[:-100])
    elif damage == "empty":
        optimizer.write_bytes(b"")
    elif damage == "bytes":
        optimizer.write_bytes(content[: len(content) // 2] + b"\0\1\2\3" * 8 + content[len(content) // 2 + 32 :])
    elif damage == "gone":
        optimizer.unlink()
    else:
        state.write_text(state.read_text()[:50])
    assert train.main(train_arguments("hurt")) == 0
    said = capsys.readouterr().out
    assert f"{newest.relative_to(project)} is damaged and left out" in said and f"going on from step {STEPS - 10} " in said
    assert_as_undisturbed(project, "hurt")


class Hostile:
    """Runs code when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.mark),)


def plant(checkpoints: list[Path], name: str, mark: Path) -> None:
    """Code in the file `name` of each checkpoint, which does run where a file is read without care."""
    assert checkpoints
    for checkpoint in checkpoints:
        torch.save(Hostile(mark), checkpoint / name)
    torch.load(checkpoints[0] / name, weights_only=False)
    mark.rmdir()


@pytest.mark.parametrize("name", ["optimizer.pt", "scheduler.pt", "rng_state.pth", "pytorch_model.bin"])
def test_a_checkpoint_with_code_in_it_is_left_out_and_the_one_before_is_resumed(
    name: str, project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    begun_like_whole(project, "evil")
    (newest,) = project.glob(f"scratch/evil/*/checkpoints/checkpoint-{STEPS}")
    plant([newest], name, tmp_path / "owned")
    assert train.main(train_arguments("evil")) == 0
    said = capsys.readouterr().out
    assert f"{newest.relative_to(project)} is damaged and left out" in said and f"going on from step {STEPS - 10} " in said
    assert not (tmp_path / "owned").exists()
    assert_as_undisturbed(project, "evil")


def test_where_every_checkpoint_has_code_in_it_the_training_begins_anew(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    begun_like_whole(project, "evil")
    checkpoints = list(project.glob("scratch/evil/*/checkpoints/checkpoint-*"))
    plant(checkpoints, "optimizer.pt", tmp_path / "owned")
    assert train.main(train_arguments("evil")) == 0
    said = capsys.readouterr().out
    assert len(checkpoints) == said.count("is damaged and left out") == 2 and "going on from" not in said
    assert not (tmp_path / "owned").exists()
    assert_as_undisturbed(project, "evil")


def test_the_pickle_that_transformers_puts_in_a_checkpoint_is_never_read(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    begun_like_whole(project, "evil")
    plant(list(project.glob("scratch/evil/*/checkpoints/checkpoint-*")), "training_args.bin", tmp_path / "owned")
    assert train.main(train_arguments("evil")) == 0
    assert f"going on from step {STEPS} " in capsys.readouterr().out
    assert not (tmp_path / "owned").exists()
    assert_as_undisturbed(project, "evil")


@pytest.mark.parametrize("file", ["began_with.json", "curves/train.jsonl"])
def test_what_cannot_be_mended_is_one_line_with_the_folder_to_delete(file: str, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    begun_like_whole(project, "hurt")
    (path,) = project.glob(f"scratch/hurt/*/{file}")
    path.write_text(path.read_text()[:-20])
    assert run_stage(lambda: train.main(train_arguments("hurt"))) == 1
    lines = capsys.readouterr().err.splitlines(keepends=True)
    said = "".join(line for line in lines if not line.startswith("warning: "))  # of the learning rate
    work = next(project.glob("scratch/hurt/*")).relative_to(project)
    assert said.startswith("error: ") and said.endswith(f"delete {work} to start over\n") and said.count("\n") == 1


def test_curves_that_are_gone_are_no_bug_either(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    begun_like_whole(project, "hurt")
    shutil.rmtree(next(project.glob("scratch/hurt/*/curves")))
    assert run_stage(lambda: train.main(train_arguments("hurt"))) == 1
    assert "to start over" in capsys.readouterr().err


def test_a_second_training_of_the_same_run_is_refused_while_the_first_one_works(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As after `kill -9` of DVC alone: its stage goes on without it."""
    process = start_training(project, {**os.environ, "HF_HUB_OFFLINE": "1"}, "twice")
    try:
        wait_for(lambda: steps_done(project, "twice") >= 1, process)
        assert run_stage(lambda: train.main(train_arguments("twice"))) == 1
        said = capsys.readouterr().err
        assert "another training is at work in scratch/twice/" in said and said.count("\n") == 1
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()
    assert train.main(train_arguments("twice")) == 0
    assert_as_undisturbed(project, "twice")


def test_a_hidden_file_of_a_killed_write_is_no_result(project: Path) -> None:
    begun_like_whole(project, "killed")
    (next(project.glob("scratch/killed/*/curves")) / ".train.csv.x7f2").write_text("step,em")
    assert train.main(train_arguments("killed")) == 0
    assert sorted(path.name for path in (project / "logs" / "killed").iterdir()) == sorted(
        path.name for path in (project / "logs" / "whole").iterdir()
    )


def test_the_lock_of_a_dead_process_is_free(tmp_path: Path) -> None:
    script = "import sys, os; from pathlib import Path; from rlver.components.domain.files import exclusive_lock\nwith exclusive_lock(Path(sys.argv[1])): os._exit(9)"
    surroundings = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    assert subprocess.run((sys.executable, "-c", script, str(tmp_path)), env=surroundings, check=False).returncode == 9
    with exclusive_lock(tmp_path), pytest.raises(InUse, match="another training is at work"), exclusive_lock(tmp_path):
        pass
