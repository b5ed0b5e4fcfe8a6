"""The stage paper_report on files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from fakes import people
from paper_run import ROOT, write_paper_run
from ruamel.yaml import YAML

from rlver.components.domain.files import write_jsonl
from rlver.tasks.runtime.stage import run_stage
from rlver.tasks.stages import paper_report

SKILLS = {"base-think": 0.1, "ppo-think-s7": 0.7, "grpo-think-s7": 0.6}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    shutil.copy(ROOT / "params.yaml", tmp_path)
    shutil.copytree(ROOT / "params", tmp_path / "params")
    rows = {
        run.name: {
            "variant": "base" if run.is_base else run.name.removesuffix("-s7"),
            "seed": 7,
            "base": run.base,
            "model": str(tmp_path / "models" / run.name),
        }
        for run in write_paper_run(tmp_path, SKILLS, personas=6)
    }
    write_jsonl(tmp_path / "test.jsonl", [persona.model_dump(mode="json") for persona in people()[1]])
    YAML().dump({"trained": {"ppo-think-s7": rows["ppo-think-s7"]}, "compared": rows}, tmp_path / "runs.yaml")
    return tmp_path


def run(project: Path) -> int:
    folders = [part for name in ("transcripts", "metrics", "logs") for part in (f"--{name}", str(project / name))]
    arguments = [
        "--runs",
        str(project / "runs.yaml"),
        *folders,
        "--personas",
        str(project / "test.jsonl"),
        "--out",
        str(project / "report"),
    ]
    return run_stage(lambda: paper_report.main([*arguments, "--params", str(project / "params.yaml")]))


def test_the_stage_writes_the_report_and_says_what_is_missing(project: Path, capsys: pytest.CaptureFixture[str]):
    shutil.rmtree(project / "logs" / "ppo-think-s7")
    failures = {"paper/dvc.yaml:train@ppo-think-s7": "paper/dvc.yaml:train@ppo-think-s7: step 5: loss is nan"}
    (project / "logs" / "failures.json").write_text(json.dumps(failures))
    assert run(project) == 0
    assert capsys.readouterr().out == "ppo-think-s7: train failed: step 5: loss is nan\n"
    assert "train failed: step 5: loss is nan" in (project / "report" / "index.html").read_text()
    assert "| grpo-think-s7 | 7 |" in (project / "report" / "results.md").read_text()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("model:", "modle:", "needs variant, seed, base and model"),
        ("variant: ppo-think", "variant: pop-think", "unknown variant 'pop-think'"),
        ("compared:", "compare:", "no policies under compared"),
        ("variant: grpo-think", "variant: ppo-think", "ppo-think-s7 and grpo-think-s7 are both PPO, think, vanilla users, seed 7"),
    ],
)
def test_a_broken_table_is_one_line(project: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, message: str):
    table = project / "runs.yaml"
    assert old in table.read_text()
    table.write_text(table.read_text().replace(old, new))
    assert run(project) == 1
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
