"""The cards of a policy, in Markdown: where it comes from, how it was measured, what it is not. Their words stand in card_*.md.j2."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from jinja2 import Environment, FileSystemLoader

from rlver.components.scoring import splits
from rlver.tasks.runtime.brackets import in_brackets

LOCAL_BASE = "a local model"  # whose path is nobody's business
_SHOWN = ("seed", "simulator.kind", "simulator.difficulty", "policy.thinking", "train.algorithm", "train.steps", "train.personas_per_step",
          "train.group_size", "train.learning_rate", "train.beta", "train.curriculum")  # fmt: skip


@dataclass(frozen=True)
class Facts:
    """What a card says of a policy. `data`: path and MD5 of what it was trained on; `sentient`: the contents of sentient.json."""

    variant: str
    base: str
    own_base: bool
    parameters: Mapping[str, str]
    data: Mapping[str, str]
    sentient: Mapping[str, Any]
    md5: str
    commit: str

    @property
    def shown(self) -> list[str]:
        """The parameters that a card names."""
        return [name for name in _SHOWN if name in self.parameters]


def card(kind: Literal["champion", "model", "dataset"], **said: Any) -> str:
    """The text of a card, by the names that its template uses."""
    words = Environment(loader=FileSystemLoader(Path(__file__).parent), trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True)
    words.globals |= {"in_brackets": in_brackets, "splits": splits}
    return words.get_template(f"card_{kind}.md.j2").render(said)
