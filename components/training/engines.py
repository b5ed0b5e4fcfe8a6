"""Who trains: our own trainer, or an engine that exists (`train.engine`). What an engine cannot do is refused by name, before anything starts.

`own` does all that params.yaml can say. `trl-async` is `trl.experimental.async_grpo`, run on a CPU in tests only: its attention needs a GPU. verl is no
word here: it starts by a command of its own, in an environment of its own (docs/adapters.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Engine = Literal["own", "trl-async"]


@dataclass(frozen=True)
class Needed:
    """The one value of a parameter that an engine can do, and why it can do no other."""

    section: str
    name: str
    value: Any
    because: str


NEEDED: dict[Engine, tuple[Needed, ...]] = {
    "own": (),
    "trl-async": (
        Needed("train", "algorithm", "grpo", "it has no critic"),
        Needed("train", "credit", "turn", "its sample is a turn with an advantage of its own"),
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
}


def refusal(engine: Engine, sections: dict[str, Any]) -> str | None:
    """What `engine` cannot do of the first parameter that it cannot do, in one line; None where it can do all.

    `sections` are those of the settings, by name.
    """
    for one in NEEDED[engine]:
        if (given := getattr(sections[one.section], one.name)) != one.value:
            return (
                f"train.engine: {engine} cannot do {one.section}.{one.name}: {given} ({one.because}); set {one.value}, or train.engine: own"
            )
    return None


def lacking(engine: Engine, has_gpu: bool) -> str | None:
    """What this machine lacks for `engine`, in one line; None where it has all."""
    if engine == "trl-async" and not has_gpu:
        return "train.engine: trl-async needs a GPU for its attention, and torch sees none here; set train.engine: own"
    return None
