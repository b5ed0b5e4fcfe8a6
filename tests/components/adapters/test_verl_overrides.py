"""What we hand over to verl stands in its own configuration, with its types: Hydra composes it, and verl's checks of it pass. It needs verl's environment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("verl", reason="verl has an environment of its own (docs/adapters.md)")

from hydra import compose, initialize_config_dir
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.utils import get_class
from micro import micro_model, micro_tokenizer
from omegaconf import OmegaConf
from replying import ROOT
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.utils.config import omega_conf_to_dataclass, validate_config

from rlver.components.adapters import verl as adapter
from rlver.components.settings.settings import load_settings
from rlver.components.training import verl_engine
from rlver.components.training.section import UpdateParameters
from rlver.components.training.verl_engine import Places

GRPO = {
    "engine": "verl", "credit": "dialogue", "scale_rewards": "group", "learning_rate_schedule": "constant", "group_size": 4,
    "personas_per_step": 16, "learning_rate": 1e-6, "warmup_steps": 20, "max_grad_norm": 0.7, "verl_gpus": 2, "save_every": 5,
    "evaluate_every": 10, "steps": 30, "rows_per_forward": 2,
}  # fmt: skip
PPO = {"algorithm": "ppo", "critic": "separate", "group_size": 1, "gamma": 0.99, "gae_lambda": 0.95, "value_clip": 0.3}


def composed(folder: Path, train: dict[str, Any], **more: Any) -> tuple[Any, UpdateParameters, Places]:
    """verl's whole configuration for a variant with these numbers, as `main_ppo` composes it, in a folder with a quote and a space in its name."""
    project = folder / "it's a project"
    (project / "params").mkdir(parents=True)
    (project / "params.yaml").write_text((ROOT / "params.yaml").read_text())
    (project / "params" / "v.yaml").write_text(json.dumps({"train": GRPO | train, "policy": {"thinking": False}, **more}))
    settings = load_settings(project / "params.yaml", "v")
    update = UpdateParameters(settings.train, settings.reward, settings.policy, settings.simulator.max_turns, settings.seed)
    places = Places(project / "base", project / "verl")
    micro_model().save_pretrained(places.base)
    micro_tokenizer().save_pretrained(places.base)
    told = verl_engine.overrides(update, "v", places, begins=True)
    of_config = [one for one in told if not one.startswith("hydra.")]
    assert len(told) - len(of_config) == 1 and OverridesParser.create().parse_overrides(told)
    with initialize_config_dir(str(ROOT / "recipes" / "verl"), version_base=None):
        return compose(settings.train.algorithm, overrides=of_config), update, places


@pytest.mark.parametrize("more", [{}, PPO], ids=["grpo", "ppo"])
def test_verl_s_own_checks_take_what_we_hand_over(tmp_path: Path, more: dict[str, Any]) -> None:
    config, update, places = composed(tmp_path, more)
    OmegaConf.resolve(config)
    validate_config(config, use_reference_policy=need_reference_policy(config), use_critic=need_critic(config))
    actor, rollout = omega_conf_to_dataclass(config.actor_rollout_ref.actor), omega_conf_to_dataclass(config.actor_rollout_ref.rollout)
    assert (actor.optim.lr, actor.optim.lr_warmup_steps, actor.optim.clip_grad, actor.optim.weight_decay) == (1e-6, 20, 0.7, 0.0)
    assert (actor.clip_ratio_low, actor.clip_ratio_high, actor.kl_loss_coef, actor.use_kl_loss) == (0.2, 0.28, 0.03, True)
    assert need_reference_policy(config) and need_critic(config) is bool(more)
    assert (actor.loss_agg_mode, actor.ppo_mini_batch_size, actor.ppo_epochs) == ("seq-mean-token-mean", 16, 1)
    assert rollout.n == update.train.group_size and (rollout.temperature, rollout.top_p) == (1.0, 1.0)
    assert rollout.response_length >= update.policy.max_context_tokens == rollout.max_model_len
    assert rollout.val_kwargs.do_sample and rollout.val_kwargs.temperature == 1.0
    assert config.data.train_files == str(places.learning) and config.trainer.default_local_dir == str(places.checkpoints)
    assert (config.trainer.total_training_steps, config.trainer.save_freq, config.trainer.test_freq) == (30, 5, 10)
    assert (config.trainer.n_gpus_per_node, config.trainer.resume_mode, config.data.seed) == (2, "auto", 7)
    assert list(config.trainer.logger) == ["file", "console"]
    assert str(places.metrics) == config.ray_kwargs.ray_init.runtime_env.env_vars.VERL_FILE_LOGGER_PATH
    if more:
        critic = omega_conf_to_dataclass(config.critic)
        assert (config.algorithm.adv_estimator, config.algorithm.gamma, config.algorithm.lam) == ("gae", 0.99, 0.95)
        assert (critic.cliprange_value, critic.optim.lr, critic.optim.lr_warmup_steps) == (0.3, 0.001, 20)


@pytest.mark.parametrize(("ours", "theirs"), verl_engine.LOSSES.items())
def test_a_way_to_average_is_verl_s(tmp_path: Path, ours: str, theirs: str) -> None:
    from verl.trainer.ppo.core_algos import agg_loss

    config, update, _ = composed(tmp_path, {"loss_type": ours})
    actor = omega_conf_to_dataclass(config.actor_rollout_ref.actor)
    assert actor.loss_agg_mode == theirs and actor.loss_scale_factor == (update.most_tokens if ours == "dr_grpo" else None)
    import torch

    loss_BT, mask_BT = torch.tensor([[1.0, 3.0], [5.0, 9.0]]), torch.tensor([[1.0, 1.0], [1.0, 0.0]])
    wanted = {"dapo": 3.0, "grpo": 3.5, "dr_grpo": 9 / 2 / update.most_tokens}[ours]
    found = agg_loss(loss_BT, mask_BT, actor.loss_agg_mode, loss_scale_factor=actor.loss_scale_factor)
    assert found.item() == pytest.approx(wanted)


def test_the_loop_that_is_handed_over_is_ours_with_the_difficulty_of_the_training(tmp_path: Path) -> None:
    _, _, places = composed(tmp_path, {})
    loops = OmegaConf.create(verl_engine.agent_loops(places.base.parent / "params.yaml", "v", "challenging", "vanilla"))
    assert [(one.name, one.difficulty) for one in loops] == [("rlver", "challenging"), (verl_engine.WATCHED, "vanilla")]
    loop = loops[0]
    assert get_class(loop._target_) is adapter.SupportAgentLoop
    settings, simulator = adapter.environment(loop.params, loop.variant, loop.difficulty)
    assert simulator.tag.difficulty == "challenging" == settings.simulator.difficulty
    assert adapter.environment(loop.params, loop.variant)[1].tag.difficulty == "vanilla"
