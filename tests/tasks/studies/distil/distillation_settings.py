"""Parameters under which distilling takes seconds, and what an appraiser that was distilled says of a recorded dialogue."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ruamel.yaml import YAML

from rlver.components.domain.protocols import exchanges_of, now
from rlver.components.domain.transcript import Appraisal, Turn
from rlver.components.users.distilled.appraiser import Distilled, Follower
from rlver.components.users.distilled.features import Known

SMALL = {
    "bits": 12,
    "trees": 30,
    "tree_learning_rate": 0.15,
    "tree_seeds": 1,
    "inner_folds": 3,
    "persona_folds": 2,
    "policy_folds": 3,
    "reasons": 4,
}


def small_parameters(repository_root: Path, out: Path) -> None:
    values = YAML(typ="safe").load((repository_root / "params.yaml").read_text(encoding="utf-8"))
    values["distil"] |= SMALL
    values["evaluation"] |= {"bootstrap_samples": 200}
    YAML(typ="safe").dump(values, out)


def appraisals(model: Distilled, known: Known, turns: Sequence[Turn]) -> list[Appraisal]:
    """The appraisal of every reply of a recorded dialogue. Raises UnfamiliarUser."""
    follower, exchanges = Follower(model, known), exchanges_of(turns)
    return [now(follower.appraise(exchanges[: number + 1], 0)) for number in range(len(exchanges))]
