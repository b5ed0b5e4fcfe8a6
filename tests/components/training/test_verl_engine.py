"""What is refused with `train.engine: verl`, a line of its metrics as rows of our curves, and which of its checkpoints is whole."""

from __future__ import annotations

import json
import math
import zipfile
from pathlib import Path
from typing import Any

import pytest
from test_engines import ROOT, settings

from rlver.components.settings.settings import SettingsError, load_settings
from rlver.components.training import verl_engine
from rlver.tasks.graph import estimates
from rlver.tasks.runtime import fingerprints

GRPO: dict[str, Any] = {"engine": "verl", "credit": "dialogue", "scale_rewards": "group", "learning_rate_schedule": "constant"}
PPO: dict[str, Any] = GRPO | {"algorithm": "ppo", "credit": "turn", "critic": "separate"}
WHOLE = ("data.pt", *(f"actor/{part}_world_size_2_rank_{rank}.pt" for part in ("model", "optim", "extra_state") for rank in (0, 1)))


@pytest.mark.parametrize("fits", [GRPO, PPO], ids=["grpo", "ppo"])
def test_verl_trains_what_it_can(tmp_path: Path, fits: dict[str, Any]) -> None:
    assert settings(tmp_path, fits).train.engine == "verl"


@pytest.mark.parametrize(
    ("train", "more", "said"),
    [
        (
            GRPO | {"credit": "turn", "scale_rewards": "none"},
            {},
            r"train\.credit: turn \(its advantages are of whole dialogues\); set dialogue",
        ),
        (GRPO | {"credit": "mica"}, {}, r"train\.credit: mica"),
        (GRPO | {"scale_rewards": "batch"}, {}, r"train\.scale_rewards: batch .*; set group or none"),
        (PPO | {"critic": "shared"}, {}, r"train\.critic: shared .*; set separate"),
        (PPO | {"gae_level": "turn"}, {}, r"train\.gae_level: turn"),
        (PPO | {"critic_sees_emotion": True}, {}, r"train\.critic_sees_emotion: True"),
        (GRPO | {"curriculum": "staged", "difficulties": ["vanilla", "challenging"]}, {}, r"train\.curriculum: staged"),
        (GRPO | {"learning_rate_schedule": "linear"}, {}, r"train\.learning_rate_schedule: linear .*; set constant"),
        (GRPO | {"keep": "best"}, {}, r"train\.keep: best"),
        (GRPO | {"trained_layers": 2}, {}, r"train\.trained_layers: 2"),
        (GRPO | {"lora_rank": 8}, {}, r"train\.lora_rank: 8"),
        (GRPO | {"max_staleness": 1}, {}, r"train\.max_staleness: 1"),
        (GRPO | {"processes": 2}, {}, r"train\.processes: 2 \(it has its own: train\.verl_gpus"),
        (GRPO | {"max_turns": 4}, {}, r"train\.max_turns: 4"),
        (GRPO, {"reward": {"cut_off_penalty": 0.1}}, r"reward\.cut_off_penalty: 0\.1"),
        (PPO, {"reward": {"dense": True}}, r"reward\.dense: True"),
        (GRPO, {"rollout": {"sampler": "vllm"}}, r"rollout\.sampler: vllm"),
        (
            GRPO,
            {"simulator": {"kind": "llm", "llm": {"appraiser": {"model": "m"}, "speaker": {"model": "m"}}}},
            r"simulator\.models: .*not lent to it yet",
        ),
    ],
)
def test_what_it_cannot_do_is_refused_by_name(tmp_path: Path, train: dict[str, Any], more: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError, match=rf"train\.engine: verl cannot do {said}"):
        settings(tmp_path, train, **more)


def test_settings_of_verl_do_not_change_what_a_run_of_before_is(tmp_path: Path) -> None:
    plain = load_settings(ROOT / "params.yaml")
    assert not [name for name in plain.train.model_dump() if name.startswith("verl")]
    assert "verl_gpus" in settings(tmp_path, {"verl_gpus": 4}).train.model_dump()


def test_what_verl_reads_is_part_of_what_a_training_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    people, base = tmp_path / "people.jsonl", tmp_path / "base"
    people.write_text("\n")
    base.mkdir()
    monkeypatch.chdir(ROOT)
    one = settings(tmp_path, GRPO | {"verl_gpus": 4, "verl_python": "/elsewhere/python"})
    verl = fingerprints.training_identity(one, people, base, 1)
    assert {"recipes/verl/grpo.yaml", "components/adapters/verl.py", "train.verl_gpus"} <= verl.keys()
    assert "train.verl_python" not in verl, "where it lies decides nothing"
    own = fingerprints.training_identity(load_settings(ROOT / "params.yaml"), people, base, 1)
    assert not [name for name in own if "recipes" in name or "components/adapters" in name or name.startswith("train.verl")]


def test_an_optimiser_of_two_models_is_on_the_disk_with_ppo(tmp_path: Path) -> None:
    one = settings(tmp_path, PPO)
    shape = estimates.policy_shape(one, None)
    both = shape.parameters + shape.trunk
    assert estimates.training_disk(one, shape) == 3 * 12 * both + 8 * shape.parameters, "three checkpoints, and the policy twice"


def line(**data: Any) -> str:
    return json.dumps({"step": 3, "data": data})


def test_a_line_of_verl_s_metrics_is_a_row_of_ours(tmp_path: Path) -> None:
    plain = settings(tmp_path, GRPO, policy={"thinking": False}).policy
    told = {"critic/score/mean": 0.5, "actor/kl_loss": 0.01, "perf/x": 2, "a/word": "no", "val-aux/rlver/well_formed/mean@1": 0.9}
    step, trained, checked = verl_engine.rows_of(line(**told), plain, format_gate=True)
    assert (step, trained) == (3, {"critic/score/mean": 0.5, "kl": 0.01, "perf/x": 2.0, "emotion_mean": 50.0})
    assert checked == {"malformed_rate": pytest.approx(0.1)}
    thinks = plain.model_copy(update={"thinking": True})
    assert "emotion_mean" not in verl_engine.rows_of(line(**told), thinks, format_gate=True)[1], "the gate has made some of it 0"
    assert "emotion_mean" in verl_engine.rows_of(line(**told), thinks, format_gate=False)[1]
    strips = thinks.model_copy(update={"thoughts": "strip"})
    assert "emotion_mean" not in verl_engine.rows_of(line(**told), strips, format_gate=False)[1], "a row is a turn"
    assert math.isnan(verl_engine.rows_of(line(**{"actor/loss": None}), plain, True)[1]["loss"]), (
        "as its file logger writes what is no number"
    )


def checkpoint(folder: Path, step: int, *, role: str = "actor", leave_out: str = "", cut: str = "") -> None:
    one = folder / f"global_step_{step}"
    (one / role / "huggingface").mkdir(parents=True)
    (one / role / "huggingface" / "config.json").write_text("{}")
    (one / role / "fsdp_config.json").write_text(json.dumps({"world_size": 2}))
    for name in WHOLE:
        path = one / name.replace("actor", role)
        if name != leave_out:
            with zipfile.ZipFile(path, "w") as file:
                file.writestr("data", "x" * 1000)
        if name == cut:
            path.write_bytes(path.read_bytes()[:900])


@pytest.mark.parametrize("name", WHOLE)
def test_a_checkpoint_that_lacks_a_file_or_the_end_of_one_is_not_gone_on_from(tmp_path: Path, name: str) -> None:
    checkpoint(tmp_path, 2)
    checkpoint(tmp_path, 4, leave_out=name)
    checkpoint(tmp_path, 10, cut=name)
    newest = verl_engine.newest_whole(tmp_path, with_critic=False)
    assert newest is not None and newest.name == "global_step_2"
    (tmp_path / verl_engine.TRACKER).write_text("10")
    assert verl_engine.go_on_from(tmp_path, with_critic=False) == 2
    assert (tmp_path / verl_engine.TRACKER).read_text() == "2" and len(list(tmp_path.iterdir())) == 2


def test_with_a_critic_its_part_must_be_whole_too(tmp_path: Path) -> None:
    checkpoint(tmp_path, 2)
    assert verl_engine.newest_whole(tmp_path, with_critic=True) is None
    checkpoint(tmp_path / "both", 2)
    checkpoint(tmp_path / "critic", 2, role="critic")
    (tmp_path / "critic" / "global_step_2" / "critic").rename(tmp_path / "both" / "global_step_2" / "critic")
    assert verl_engine.go_on_from(tmp_path / "both", with_critic=True) == 2
    (tmp_path / verl_engine.TRACKER).write_text("2")
    assert verl_engine.go_on_from(tmp_path, with_critic=True) == 0 and not (tmp_path / verl_engine.TRACKER).exists()
