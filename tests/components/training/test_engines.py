"""What an engine cannot do is said by name, before anything starts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import pytest

from rlver.components.settings.settings import SettingsError, load_settings
from rlver.components.training.engines import NEEDED, Engine, lacking

ROOT = Path(__file__).parents[3]
FITS: dict[str, Any] = {"engine": "trl-async", "credit": "turn", "scale_rewards": "none", "loss_type": "dapo", "beta": 0.0}


def settings(folder: Path, train: dict[str, Any], **more: Any) -> Any:
    (folder / "params").mkdir()
    (folder / "params.yaml").write_text((ROOT / "params.yaml").read_text())
    (folder / "params" / "one.yaml").write_text(json.dumps({"train": train, **more}))  # JSON is YAML
    return load_settings(folder / "params.yaml", "one")


def test_our_own_trainer_is_the_default_and_is_not_in_the_digest(tmp_path: Path) -> None:
    plain = load_settings(ROOT / "params.yaml")
    assert plain.train.engine == "own" and "engine" not in plain.train.model_dump()
    assert settings(tmp_path, {"engine": "own"}).digest() == plain.digest()
    assert NEEDED["own"] == () and set(NEEDED) == set(get_args(Engine))


def test_an_engine_trains_what_it_can(tmp_path: Path) -> None:
    assert settings(tmp_path, FITS).train.engine == "trl-async"


@pytest.mark.parametrize(
    ("changed", "more", "said"),
    [
        ({"algorithm": "ppo"}, {}, r"train\.algorithm: ppo \(it has no critic\); set grpo"),
        ({"beta": 0.01}, {}, r"train\.beta: 0\.01 \(it has no reference policy\); set 0\.0"),
        ({"loss_type": "grpo"}, {}, r"train\.loss_type: grpo \(it averages over tokens\); set dapo"),
        ({"credit": "dialogue"}, {}, r"train\.credit: dialogue .*; set turn"),
        ({"scale_rewards": "batch"}, {}, r"train\.scale_rewards: batch .*; set none"),
        ({"lora_rank": 4}, {}, r"train\.lora_rank: 4"),
        ({"max_staleness": 1}, {}, r"train\.max_staleness: 1"),
        ({}, {"rollout": {"sampler": "vllm"}}, r"rollout\.sampler: vllm"),
    ],
)
def test_what_it_cannot_do_is_refused_by_name(tmp_path: Path, changed: dict[str, Any], more: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError, match=rf"train\.engine: trl-async cannot do {said}"):
        settings(tmp_path, FITS | changed, **more)


@pytest.mark.parametrize("word", ["nemo-rl", "trl_async", ""])
def test_an_engine_that_nobody_built_is_no_word(tmp_path: Path, word: str) -> None:
    with pytest.raises(SettingsError, match=r"train\.engine"):
        settings(tmp_path, {"engine": word})


def test_a_machine_without_a_gpu_is_told_before_anything_starts() -> None:
    assert lacking("own", has_gpu=False) is None and lacking("trl-async", has_gpu=True) is None
    assert "needs a GPU" in str(lacking("trl-async", has_gpu=False))
