"""A disk that is full, a folder that cannot be written: one line, nothing half-written, and right once there is room.

Each test mounts a small disk of its own in a namespace that is gone afterwards; where that is not allowed it is skipped.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from paper_run import write_paper_run
from ruamel.yaml import YAML
from small_project import REPOSITORY, make_project, weights
from whole_project import DATED

from rlver.components.training.curves import CurveFile

NAMESPACE = ("unshare", "--map-root-user", "--mount")


def namespaces() -> bool:
    try:
        return subprocess.run((*NAMESPACE, "sh", "-c", "mount -t tmpfs none /mnt"), capture_output=True, check=False).returncode == 0
    except OSError:
        return False


pytestmark = [pytest.mark.slow, pytest.mark.skipif(not namespaces(), reason="mounting in a namespace is not allowed here")]


def inside(root: Path, script: str) -> subprocess.CompletedProcess[str]:
    """What a shell script says in `root`, in a namespace; `$python` is ours."""
    surroundings = {**os.environ, "PYTHONPATH": str(REPOSITORY), "python": sys.executable, "HF_HUB_OFFLINE": "1"}
    return subprocess.run((*NAMESPACE, "sh", "-c", script), cwd=root, env=surroundings, capture_output=True, text=True, check=False)


def errors(done: subprocess.CompletedProcess[str]) -> list[str]:
    assert "Traceback" not in done.stderr, done.stderr[-3000:]
    return [line for line in done.stderr.splitlines() if line.startswith("error: ")]


def test_personas_on_a_full_disk_leave_nothing_and_come_whole_when_there_is_room(tmp_path: Path) -> None:
    make_project(tmp_path)
    stage = "$python -m rlver.tasks.stages.personas --out disk/personas --metrics disk/personas.json"
    done = inside(
        tmp_path,
        f"mkdir disk plain && mount -t tmpfs -o size=64k none disk && {stage}; echo status $?; find disk -type f;"
        f"mount -o remount,size=64m none disk && {stage} && cp -r disk/. plain/",
    )
    assert [line for line in errors(done) if "No space left on device" in line] == errors(done) and len(errors(done)) == 1
    assert done.returncode == 0 and done.stdout.splitlines() == ["status 1"], "not a file is left"
    written = inside(tmp_path, stage)
    assert written.returncode == 0
    for name in ("personas/train.jsonl", "personas/test.jsonl", "personas.json"):
        assert (tmp_path / "plain" / name).read_bytes() == (tmp_path / "disk" / name).read_bytes()


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    make_project(tmp_path)
    stage = "$python -m rlver.tasks.stages.personas --out disk/personas --metrics disk/personas.json"
    done = inside(tmp_path, f"mkdir disk && mount -t tmpfs -o ro none disk && {stage}; echo status $?; find disk -type f")
    (line,) = errors(done)
    assert "Read-only file system" in line and "disk/personas" in line and done.stdout == "status 1\n"


TRAIN = "$python -m rlver.tasks.stages.train --variant v --personas train.jsonl --base models/base"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training of two steps with a checkpoint after each, that had room."""
    root = tmp_path_factory.mktemp("room")
    make_project(root)
    base = "$python -m rlver.tasks.stages.base --personas train.jsonl --out models/base --metrics metrics/base.json"
    done = inside(root, f"{base} && {TRAIN} --out models/whole --logs logs/whole --scratch scratch")
    assert done.returncode == 0, done.stderr
    return root


@pytest.mark.parametrize(
    ("size", "until"),
    [
        ("8k", "curves"),
        ("40k", "the weights of the first checkpoint"),
        ("100k", "its tokenizer"),
        ("160k", "its optimizer"),
        ("330k", "the second checkpoint"),
        ("560k", "the model itself"),
    ],
)
def test_a_training_on_a_full_disk_goes_on_when_there_is_room(size: str, until: str, trained: Path) -> None:
    stage = f"{TRAIN} --out disk/model --logs disk/logs --scratch disk/scratch"
    done = inside(
        trained,
        f"rm -rf disk plain && mkdir disk plain && mount -t tmpfs -o size={size} none disk && {stage} >&2; echo status $?;"
        f"ls disk/scratch/*/checkpoints/*/trainer_state.json 2>/dev/null | wc -l; mount -o remount,size=64m none disk;"
        f"{stage} && cp -r disk/model disk/logs plain/",
    )
    (line,) = errors(done)
    assert line.endswith("; is the disk full? make room, then run the same command again"), until
    status, checkpoints, *said = done.stdout.splitlines()
    assert done.returncode == 0 and status == "status 1", until
    resumed = [one for one in said if one.startswith("going on from step ")]
    assert len(resumed) == (int(checkpoints) > 0), "what was saved whole is not done again"
    torch.testing.assert_close(weights(trained / "plain" / "model"), weights(trained / "models" / "whole"), atol=1e-6, rtol=0)
    for curve in ("train", "evaluation"):
        rows, expected = (CurveFile(folder / curve).rows() for folder in (trained / "plain" / "logs", trained / "logs" / "whole"))
        assert [row["step"] for row in rows] == [row["step"] for row in expected]


AGAIN = {
    "base": "base --personas train.jsonl --out disk/base --metrics disk/base.json",
    "converse": "converse --variant base --personas test.jsonl --model models/base --out disk/base.jsonl",
    "score": "score --variant base --transcripts transcripts/base.jsonl --base transcripts/base.jsonl --personas test.jsonl --out disk/sentient.json",
    "benchmark": "benchmark --variant base --model models/base --out disk/general.json",
    "warmup": "warmup --variant v --base models/base --out disk/warm --metrics disk/warm.json",
    "paper_report": "paper_report --runs paper/runs.yaml --transcripts paper/transcripts --metrics paper/metrics --logs paper/logs --personas test.jsonl --out disk/paper",
    "report": "report --transcripts transcripts --metrics metrics --logs logs --personas test.jsonl --out disk/reports",
}


def make_paper_run(root: Path) -> None:
    """What the stage paper_report reads, in paper/: a base and what it was trained to."""
    for name in ("base-think", "ppo-think"):
        (root / "params" / f"{name}.yaml").write_text("policy: {thinking: true}\n")
    skills = {"base-think": 0.1, "ppo-think-s7": 0.7}
    rows = {
        run.name: {"variant": run.name.removesuffix("-s7"), "seed": 7, "base": run.base, "model": f"models/{run.name}"}
        for run in write_paper_run(root / "paper", skills, personas=2)
    }
    YAML().dump({"trained": {"ppo-think-s7": rows["ppo-think-s7"]}, "compared": rows}, root / "paper" / "runs.yaml")


@pytest.fixture(scope="module")
def whole(trained: Path) -> Path:
    """All further stages, with room, each into made/; what one makes lies where the next one reads."""
    values = YAML(typ="safe").load((trained / "params.yaml").read_text(encoding="utf-8"))
    values["benchmark"] |= {"tasks": ["rlver_tiny_choice"], "limit": 8}
    values["evaluation"]["bootstrap_samples"] = 100
    values["warmup"] |= {"dialogues": [["first_plain"]], "at_most": 40, "batch_tokens": 20_000}
    YAML(typ="safe").dump(values, trained / "params.yaml")
    make_paper_run(trained)
    places = {"converse": "transcripts", "score": "metrics/base", "benchmark": "metrics/base"}
    for name, stage in AGAIN.items():
        made = f"made/{name}"
        copied = f"mkdir -p {places[name]} && cp -r {made}/. {places[name]}/" if name in places else "true"
        done = inside(trained, f"mkdir -p {made} && $python -m rlver.tasks.stages.{stage.replace('disk/', f'{made}/')} && {copied}")
        assert done.returncode == 0, done.stderr
    return trained


@pytest.mark.parametrize(
    ("name", "size"),
    [("base", "4k"), ("base", "60k"), ("converse", "4k"), ("converse", "20k"), ("score", "4k"), ("benchmark", "4k"), ("warmup", "4k"), ("warmup", "60k"),
     ("paper_report", "4k"), ("paper_report", "most of it"), ("report", "4k"), ("report", "200k"), ("report", "most of it")],
)  # fmt: skip
def test_every_other_stage_on_a_full_disk_is_one_line_and_right_when_there_is_room(name: str, size: str, whole: Path) -> None:
    stage = f"$python -m rlver.tasks.stages.{AGAIN[name]}"
    if size == "most of it":
        size = str(sum(path.stat().st_size for path in (whole / "made" / name).rglob("*") if path.is_file()) * 4 // 5)
    done = inside(
        whole,
        f"rm -rf disk plain && mkdir disk plain && mount -t tmpfs -o size={size} none disk && echo old > disk/old; {stage} >&2; echo status $?;"
        f"find disk -type f -name '.*'; mount -o remount,size=64m none disk; {stage} >&2 && rm -f disk/old && cp -r disk/. plain/",
    )
    (line,) = errors(done)
    assert line.endswith("; is the disk full? make room, then run the same command again")
    assert done.returncode == 0 and done.stdout == "status 1\n", "nothing half-written is left"
    found, expected = (
        {DATED.sub("date", str(path.relative_to(at))): path for path in sorted(at.rglob("*")) if path.is_file()}
        for at in (whole / "plain", whole / "made" / name)
    )
    assert found.keys() == expected.keys()
    if name not in ("base", "warmup"):  # whose weights differ a little, and whose metrics hold seconds
        same = [file for file, path in found.items() if not DATED.search(path.name)]
        assert [found[file].read_bytes() for file in same] == [expected[file].read_bytes() for file in same]
