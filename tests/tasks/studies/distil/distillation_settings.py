"""Parameters under which distilling takes seconds."""

from __future__ import annotations

from pathlib import Path

from ruamel.yaml import YAML

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
