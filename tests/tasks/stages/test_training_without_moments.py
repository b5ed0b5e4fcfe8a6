"""kill -9 in the middle of `train`, with the optimizer in its checkpoints and without: what the run then says, goes on with and ends in."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from small_project import make_base, make_project, start_training, train_arguments, weights

from rlver.components.training.curves import CurveFile
from rlver.tasks.runtime.checkpoints import latest_intact_checkpoint
from rlver.tasks.stages import train

STEPS = 12


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run `whole`, and the overlay `light` with checkpoints that hold no moments."""
    root = tmp_path_factory.mktemp("moments")
    make_project(root, steps=STEPS, save_every=2, evaluate_every=STEPS, warmup_steps=2)
    (root / "params" / "light.yaml").write_text("policy: {thinking: false}\ntrain: {checkpoint_optimizer: false}\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        make_base(root)
        assert train.main(train_arguments("whole")) == 0
    return root


@pytest.fixture(autouse=True)
def in_project(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)


def killed(root: Path, name: str, variant: str) -> None:
    """The training `name`, killed once a checkpoint is whole as the run itself sees it: `trainer_state.json`, written last, is read to its end."""
    process = start_training(root, {**os.environ, "HF_HUB_OFFLINE": "1"}, name, variant)
    end = time.monotonic() + 200
    while not any(latest_intact_checkpoint(one, variant == "v")[0] for one in root.glob(f"scratch/{name}/*/checkpoints")):
        assert process.poll() is None and time.monotonic() < end
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert not (root / "models" / name).exists()


def size_of(checkpoint: Path) -> int:
    return sum((checkpoint / name).stat().st_size for name in ("model.safetensors", "optimizer.pt"))


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["v", "light"])  # v: as test_killed_training.py, once
def test_a_killed_training_goes_on_and_says_what_it_goes_on_with(variant: str, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    killed(root, variant, variant)
    assert train.main(train_arguments(variant, variant)) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("going on from step ")]
    rows, expected = (CurveFile(root / "logs" / name / "train").rows() for name in (variant, "whole"))
    for key in ("step", "learning_rate"):
        assert [row[key] for row in rows] == [row[key] for row in expected], "no step twice, none missing, and the schedule goes on"
    [whole], [own] = ((root / "scratch" / name).glob(f"*/checkpoints/checkpoint-{STEPS}") for name in ("whole", variant))
    apart = (weights(root / "models" / variant) - weights(root / "models" / "whole")).abs().max()
    if variant == "v":
        assert line.endswith(")") and apart <= 1e-6 and size_of(own) == size_of(whole)
    else:
        assert "), with a fresh optimizer (train.checkpoint_optimizer: false): from here on the steps are not those of" in line
        assert apart > 1e-4 and 0.3 * size_of(whole) < size_of(own) < 0.4 * size_of(whole)
