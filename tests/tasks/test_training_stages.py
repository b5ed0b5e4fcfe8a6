"""Stages base, train and converse in one small project, with the real parts: files, curves, resume."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from fakes import people
from ruamel.yaml import YAML

from components.evaluation.transcripts import load_transcripts
from components.files import write_jsonl
from components.policy.load import load_policy
from components.recording import CurveFile
from components.settings import load_settings
from components.training.watch import Watch
from flows.cli import main as rlver
from tasks.stages import base, converse, train

SMALL: dict[str, dict[str, Any]] = {
    "simulator": {"max_turns": 3},
    "base": {"hidden_size": 16, "layers": 1, "heads": 2, "vocab_size": 500, "dialogues": 12, "world_rounds": 1, "batch_tokens": 4000,
             "single_replies": 20, "max_seconds": 0},
    "policy": {"thinking": False, "max_reply_tokens": 8, "max_context_tokens": 900},
    "train": {"steps": 2, "personas_per_step": 2, "group_size": 4, "rows_per_forward": 4, "save_every": 1, "evaluate_every": 1,
              "evaluation_personas": 2, "warmup_steps": 0, "learning_rate": 0.01},
    "evaluation": {"concurrency": 4},
}  # fmt: skip


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory, repository_root: Path) -> Path:
    root = tmp_path_factory.mktemp("stages")
    values = YAML(typ="safe").load((repository_root / "params.yaml").read_text(encoding="utf-8"))
    for section, changes in SMALL.items():
        values[section] |= changes
    YAML(typ="safe").dump(values, root / "params.yaml")
    (root / "params").mkdir()
    for name in ("base", "v"):
        (root / "params" / f"{name}.yaml").write_text("policy: {thinking: false}\n")
    for name, personas in zip(("train", "test"), people(), strict=True):
        write_jsonl(root / f"{name}.jsonl", [persona.model_dump(mode="json") for persona in personas])
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        assert base.main(["--personas", "train.jsonl", "--out", "models/base", "--metrics", "metrics/base.json"]) == 0
        assert run_train("whole") == 0
    return root


def run_train(name: str) -> int:
    arguments = ["--variant", "v", "--personas", "train.jsonl", "--base", "models/base"]
    return train.main([*arguments, "--out", f"models/{name}", "--logs", f"logs/{name}", "--scratch", f"scratch/{name}"])


@pytest.fixture(autouse=True)
def in_project(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)


def weights(path: Path) -> torch.Tensor:
    return torch.cat([weight.detach().flatten() for weight in load_policy(path)[0].parameters()])


def test_base_writes_a_policy_and_its_measures(root: Path) -> None:
    metrics = json.loads((root / "metrics" / "base.json").read_text())
    assert metrics["last_loss"] < metrics["first_loss"] and metrics["steps"] > 0 and not metrics["cut_short"]
    assert metrics["parameters"] == len(weights(root / "models" / "base"))
    assert 0 <= metrics["corpus_emotion_mean"] <= 100


def test_the_same_parameters_give_the_same_base(root: Path) -> None:
    assert base.main(["--personas", "train.jsonl", "--out", "models/again", "--metrics", "metrics/again.json"]) == 0
    for name in ("model.safetensors", "tokenizer.json"):
        assert (root / "models" / "again" / name).read_bytes() == (root / "models" / "base" / name).read_bytes()
    assert (root / "metrics" / "again.json").read_bytes() == (root / "metrics" / "base.json").read_bytes()


def test_a_model_of_somebody_else_is_taken_over_as_it_is(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = YAML(typ="safe").load((root / "params.yaml").read_text())
    values["base"] |= {"kind": "model", "model": str(root / "models" / "base")}
    YAML(typ="safe").dump(values, tmp_path / "params.yaml")
    monkeypatch.chdir(tmp_path)
    assert base.main(["--personas", "none", "--out", "taken", "--metrics", "m.json"]) == 0
    assert torch.equal(weights(tmp_path / "taken"), weights(root / "models" / "base"))


def test_training_moves_the_weights_and_writes_its_curves(root: Path) -> None:
    assert not torch.equal(weights(root / "models" / "whole"), weights(root / "models" / "base"))
    assert [row["step"] for row in CurveFile(root / "logs" / "whole" / "train").rows()] == [1, 2]
    checks = CurveFile(root / "logs" / "whole" / "evaluation").rows()
    assert [row["step"] for row in checks] == [0, 1, 2] and all(row["n"] == 2 for row in checks)


def test_interrupted_training_goes_on_from_its_checkpoint_and_ends_in_the_same_weights(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = Watch.on_step_end

    def press_ctrl_c(self: Watch, args: Any, state: Any, control: Any, **other: Any) -> None:
        if state.global_step == 2:
            raise KeyboardInterrupt
        ended(self, args, state, control, **other)

    with monkeypatch.context() as patch:
        patch.setattr(Watch, "on_step_end", press_ctrl_c)
        with pytest.raises(KeyboardInterrupt):
            run_train("again")
    capsys.readouterr()
    assert run_train("again") == 0
    assert "going on from step 1" in capsys.readouterr().out
    torch.testing.assert_close(weights(root / "models" / "again"), weights(root / "models" / "whole"), atol=1e-6, rtol=0)
    for name, steps in (("train", [1, 2]), ("evaluation", [0, 1, 2])):
        rows, expected = (CurveFile(root / "logs" / run / name).rows() for run in ("again", "whole"))
        assert [row["step"] for row in rows] == steps
        for row, wanted in zip(rows, expected, strict=True):
            assert row["emotion_mean"] == pytest.approx(wanted["emotion_mean"])


def test_a_checkpoint_belongs_to_what_decides_the_result(root: Path) -> None:
    settings = load_settings(Path("params.yaml"), "v")
    mark = train.fingerprint(settings, Path("train.jsonl"), Path("models/base"))
    assert mark == train.fingerprint(settings, Path("train.jsonl"), Path("models/base"))
    others = (
        train.fingerprint(settings, Path("test.jsonl"), Path("models/base")),
        train.fingerprint(settings, Path("train.jsonl"), Path("models/whole")),
        train.fingerprint(settings.model_copy(update={"seed": 8}), Path("train.jsonl"), Path("models/base")),
    )
    assert len({mark, *others}) == 4


def test_converse_speaks_with_everybody_and_what_it_wrote_can_be_derived_again(root: Path) -> None:
    arguments = ["--variant", "v", "--personas", "test.jsonl", "--model", "models/whole", "--out"]
    assert converse.main([*arguments, "transcripts/v.jsonl"]) == 0
    dialogues = load_transcripts(root / "transcripts" / "v.jsonl")
    assert [dialogue.persona_id for dialogue in dialogues] == [persona.persona_id for persona in people()[1]]
    assert all(dialogue.policy == "v" for dialogue in dialogues)
    assert rlver(["verify", "transcripts/v.jsonl", "--personas", "test.jsonl", "--variant", "v"]) == 0
    assert converse.main([*arguments, "transcripts/again.jsonl"]) == 0
    assert (root / "transcripts" / "again.jsonl").read_bytes() == (root / "transcripts" / "v.jsonl").read_bytes()


def test_converse_without_a_model_is_one_line(root: Path) -> None:
    with pytest.raises(ValueError, match="models/none: no such model folder"):
        converse.main(["--variant", "v", "--personas", "test.jsonl", "--model", "models/none", "--out", "x.jsonl"])


def test_another_seed_trains_another_policy(root: Path) -> None:
    arguments = ["--variant", "v", "--personas", "train.jsonl", "--base", "models/base", "--scratch", "scratch/seed"]
    assert train.main([*arguments, "--out", "models/s8", "--logs", "logs/s8", "--seed", "8"]) == 0
    assert not torch.equal(weights(root / "models" / "s8"), weights(root / "models" / "whole"))


def test_the_same_policy_talks_with_another_user_under_another_seed(root: Path) -> None:
    arguments = ["--variant", "v", "--personas", "test.jsonl", "--model", "models/whole", "--out", "transcripts/other.jsonl"]
    assert converse.main([*arguments, "--seed", "8", "--difficulty", "challenging"]) == 0
    dialogues = load_transcripts(root / "transcripts" / "other.jsonl")
    assert {(dialogue.seed, dialogue.simulator.difficulty) for dialogue in dialogues} == {(8, "challenging")}
