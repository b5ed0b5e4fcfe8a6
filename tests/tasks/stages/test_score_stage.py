from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from rlver.components.domain.files import write_jsonl
from rlver.tasks.runtime.stage import run_stage
from rlver.tasks.stages import score

ROOT = Path(__file__).parents[3]


@pytest.fixture
def project(tmp_path: Path, dialogue) -> Path:
    """Transcripts of base and a variant on two personas, beside the project's parameters."""
    shutil.copy(ROOT / "params.yaml", tmp_path / "params.yaml")
    shutil.copytree(ROOT / "params", tmp_path / "params")
    write_jsonl(tmp_path / "base.jsonl", [json.loads(dialogue(name, [0] * 10).model_dump_json()) for name in ("a", "b")])
    write_jsonl(tmp_path / "grpo-think.jsonl", [json.loads(dialogue(name, [2] * 10).model_dump_json()) for name in ("a", "b")])
    write_jsonl(
        tmp_path / "personas.jsonl", [{"persona_id": "a", "persona_class": "negative"}, {"persona_id": "b", "persona_class": "passive"}]
    )
    return tmp_path


def run(project: Path, variant: str, out: str = "out.json") -> int:
    arguments = [
        "--variant",
        variant,
        "--transcripts",
        f"{variant}.jsonl",
        "--base",
        "base.jsonl",
        "--personas",
        "personas.jsonl",
        "--out",
        out,
    ]
    paths = [str(project / a) if a.endswith((".jsonl", ".json")) else a for a in arguments]
    return run_stage(lambda: score.main([*paths, "--params", str(project / "params.yaml")]))


def test_a_variant_is_scored_against_base(project: Path):
    assert run(project, "grpo-think") == 0
    metrics = json.loads((project / "out.json").read_text())
    assert metrics["emotion_mean"] == 60
    assert metrics["paired_to_base"]["difference"] == 20
    assert set(metrics["by_class"]) == {"negative", "passive"}


def test_base_has_no_difference_to_itself(project: Path):
    assert run(project, "base") == 0
    assert json.loads((project / "out.json").read_text())["paired_to_base"] is None


def test_two_runs_give_identical_files(project: Path):
    assert run(project, "grpo-think", "one.json") == run(project, "grpo-think", "two.json") == 0
    assert (project / "one.json").read_bytes() == (project / "two.json").read_bytes()


def test_the_digest_follows_the_parameters_of_this_stage_only(project: Path):
    digests = []
    for old, new in (
        (None, None),
        ("  credit: turn ", "  credit: dialogue "),
        ("bootstrap_samples: 10000", "bootstrap_samples: 5000"),
    ):
        text = (project / "params.yaml").read_text()
        if old and new:
            assert old in text
            (project / "params.yaml").write_text(text.replace(old, new))
        assert run(project, "base") == 0
        digests.append(json.loads((project / "out.json").read_text())["settings_digest"])
    assert digests[0] == digests[1] != digests[2]


def test_bad_input_is_one_line_and_leaves_the_old_metrics(project: Path, capsys: pytest.CaptureFixture[str]):
    (project / "out.json").write_text("old")
    lines = (project / "grpo-think.jsonl").read_text().splitlines()
    impossible = json.loads(lines[1])
    impossible["turns"][4]["emotion"] = 3
    cases = [
        ("grpo-think.jsonl", f"{lines[0]}\n{{oops\n", "grpo-think.jsonl:2: not valid JSON"),
        (
            "grpo-think.jsonl",
            f"{lines[0]}\n{json.dumps(impossible)}\n",
            "grpo-think.jsonl:2: dialogue b/0: turn 5: emotion 48 with change +2 gives 50, got 3",
        ),
        ("personas.jsonl", '{"persona_id": "a"}\n', "personas.jsonl:1: a persona needs"),
    ]
    for name, content, message in cases:
        good = (project / name).read_text()
        (project / name).write_text(content)
        assert run(project, "grpo-think") == 1
        error = capsys.readouterr().err
        assert message in error and error.count("\n") == 1
        assert (project / "out.json").read_text() == "old"
        (project / name).write_text(good)
    (project / "grpo-think.jsonl").unlink()
    assert run(project, "grpo-think") == 1
    assert "no such file" in capsys.readouterr().err


def test_every_persona_without_a_class_is_named_by_its_line(project: Path, capsys: pytest.CaptureFixture[str]):
    write_jsonl(project / "personas.jsonl", [{"persona_id": "a"}, {"persona_id": "b", "persona_class": "passive"}, {"persona_id": 7}])
    assert run(project, "base") == 1
    assert "personas.jsonl:1, 3: a persona needs persona_id and persona_class" in capsys.readouterr().err
