"""What the paper run consists of: policies, each of a kind (how it was trained) and with a seed.

Two policies of the same kind differ in the seed alone. What kind a policy is follows from its parameters, never from its name.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from components.settings import Settings

USERS = ("vanilla", "challenging")  # of the benchmark: every policy talks with both
CURRICULUM = "curriculum"


@dataclass(frozen=True, order=True)
class Kind:
    """How a policy was trained: `algorithm` ppo or grpo, `users` a difficulty or CURRICULUM. The untrained ones have neither."""

    algorithm: str | None
    thinking: bool
    users: str | None

    @property
    def prompt(self) -> str:
        return "think" if self.thinking else "direct"

    @property
    def recipe(self) -> str:
        """Algorithm and prompt, as a reader says it: PPO, think."""
        return f"{self.algorithm.upper() if self.algorithm else 'base'}, {self.prompt}"

    def __str__(self) -> str:
        return f"{self.recipe}, {self.users} users" if self.users else self.recipe


@dataclass(frozen=True)
class Run:
    """One policy. `base` names the run it is compared with (a base itself); `logs` is the folder of its learning curves."""

    name: str
    kind: Kind
    seed: int
    base: str
    logs: Path

    @property
    def is_base(self) -> bool:
        return self.name == self.base


def kind_of(settings: Settings, is_base: bool) -> Kind:
    """The kind of a policy trained with these settings, or of a base spoken to with them."""
    if is_base:
        return Kind(None, settings.policy.thinking, None)
    train = settings.train
    users = train.difficulties[0] if train.curriculum == "none" else CURRICULUM
    return Kind(train.algorithm, settings.policy.thinking, users)
