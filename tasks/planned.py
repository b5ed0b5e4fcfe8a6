"""Stages that would run, read from their commands: the module, its options, and whether its settings can work at all."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from components.settings import Settings, load_settings
from tasks import dvc


@dataclass(frozen=True)
class Planned:
    """A stage that would run, and the options of its command by name."""

    stage: dvc.Stage
    module: str
    options: Mapping[str, str]

    @property
    def variant(self) -> str | None:
        return self.options.get("variant")

    def settings(self, root: Path) -> Settings:
        """Those it would run with. Raises SettingsError."""
        seed = self.options.get("seed")
        return load_settings(root / "params.yaml", self.variant, seed=int(seed) if seed else None)


def planned(step: dvc.Stage) -> Planned:
    """Module and options of a stage's command; of several lines, the first."""
    module = re.search(r"-m (tasks\.stages\.\w+)", step.command)
    return Planned(step, module[1].rpartition(".")[2] if module else "", dict(re.findall(r"--([a-z]+) (\S+)", step.command.split("\n")[0])))


def refuse_impossible(root: Path, steps: Iterable[dvc.Stage]) -> None:
    """Raise SettingsError, in one line, for the first of `steps` whose settings cannot work: better now than after the stages before it."""
    for one in map(planned, steps):
        if one.module in ("base", "train"):
            settings = one.settings(root)
            if one.module == "train":
                settings.require_trainable()
