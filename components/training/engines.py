"""Who trains: our own trainer, or an engine that exists (`train.engine`). What an engine cannot do is refused by name, before anything starts.

`own` does all that params.yaml can say. `trl-async` is `trl.experimental.async_grpo`, run on a CPU in tests only: its attention needs a GPU. `verl` is
verl's trainer, in processes and an environment of its own (verl_engine.py, docs/adapters.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Engine = Literal["own", "trl-async", "verl"]


@dataclass(frozen=True)
class Needed:
    """The one value of a parameter that an engine can do (of a tuple: each of these), and why it can do no other. `of`: with this algorithm only."""

    section: str
    name: str
    value: Any
    because: str
    of: str | None = None

    @property
    def values(self) -> tuple[Any, ...]:
        return self.value if isinstance(self.value, tuple) else (self.value,)


NEEDED: dict[Engine, tuple[Needed, ...]] = {
    "own": (),
    "trl-async": (
        Needed("train", "algorithm", "grpo", "it has no critic"),
        Needed("train", "credit", "turn", "its sample is a turn with an advantage of its own"),
        Needed(
            "train",
            "scale_rewards",
            "none",
            "of the few dialogues that it holds at once, one that differs by little would weigh as much as any",
        ),
        Needed("train", "loss_type", "dapo", "it averages over tokens"),
        Needed("train", "beta", 0.0, "it has no reference policy"),
        Needed("train", "updates_per_batch", 1, "it learns once from a sample"),
        Needed("train", "curriculum", "none", "its dialogues run ahead of the steps"),
        Needed("train", "ratio_cap", 4.0, "it has no cap of its own on ratios"),
        Needed("train", "lora_rank", 0, "it sends all weights by name"),
        Needed("train", "trained_layers", 0, "it trains all of them"),
        Needed("train", "gamma", 1.0, "its samples are credited with the whole return"),
        Needed("train", "keep", "last", "it learns with a model of its own"),
        Needed("train", "processes", 1, "more were never tried"),
        Needed("train", "max_staleness", 0, "it has a staleness of its own"),
        Needed("policy", "thoughts", "keep", "it averages over tokens, and so long dialogues would weigh more"),
        Needed("rollout", "sampler", "transformers", "its own client of vLLM does not hold our dialogues"),
    ),
    "verl": (
        Needed("train", "algorithm", ("grpo", "ppo"), "of ours it has these two"),
        Needed("train", "credit", "dialogue", "its advantages are of whole dialogues", of="grpo"),
        Needed("train", "scale_rewards", ("group", "none"), "it scales by the group or not at all", of="grpo"),
        Needed("train", "critic", "separate", "its critic is a model of its own", of="ppo"),
        Needed("train", "critic_sees_emotion", False, "its critic reads what the policy reads", of="ppo"),
        Needed("train", "gae_level", "token", "a step of its policy is a token", of="ppo"),
        Needed("train", "curriculum", "none", "its dialogues know nothing of each other"),
        Needed("train", "learning_rate_schedule", "constant", "it has no linear one"),
        Needed("train", "updates_per_batch", 1, "more were never tried"),
        Needed("train", "max_turns", None, "its dialogues are as long as those of the benchmark"),
        Needed("train", "max_staleness", 0, "it has a staleness of its own"),
        Needed("train", "lora_rank", 0, "its merger leaves adapters beside the base"),
        Needed("train", "trained_layers", 0, "it trains all of them"),
        Needed("train", "keep", "last", "its checkpoints have no score"),
        Needed("train", "processes", 1, "it has its own: train.verl_gpus, train.verl_nodes"),
        Needed("train", "checkpoint_optimizer", True, "its checkpoints are its own"),
        Needed("reward", "kind", "emotion", "its agent loop hands over the final emotion"),
        Needed("reward", "dense", False, "its agent loop hands over the final emotion"),
        Needed("reward", "cut_off_penalty", 0.0, "its agent loop hands over the final emotion"),
        Needed("rollout", "sampler", "transformers", "it starts vLLM itself"),
        Needed("simulator", "models", [], "users who are language models are not lent to it yet"),
    ),
}


def refusal(engine: Engine, sections: dict[str, Any]) -> str | None:
    """What `engine` cannot do of the first parameter that it cannot do, in one line; None where it can do all.

    `sections` are those of the settings, by name.
    """
    for one in NEEDED[engine]:
        if one.of not in (None, sections["train"].algorithm):
            continue
        if (given := getattr(sections[one.section], one.name)) not in one.values:
            wanted = " or ".join(map(str, one.values))
            return f"train.engine: {engine} cannot do {one.section}.{one.name}: {given} ({one.because}); set {wanted}, or train.engine: own"
    return None


def lacking(engine: Engine, has_gpu: bool) -> str | None:
    """What this machine lacks for `engine`, in one line; None where it has all."""
    if engine == "trl-async" and not has_gpu:
        return "train.engine: trl-async needs a GPU for its attention, and torch sees none here; set train.engine: own"
    return None
