"""A variant that verl trains, in the graph: DVC watches what verl reads for it, and for no other variant."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from fake_graph import copy_graph, repro
from ruamel.yaml import YAML

from rlver.components.domain.files import read_yaml
from rlver.components.settings.settings import load_settings
from rlver.tasks.graph import dvc
from rlver.tasks.runtime.fingerprints import LENT_TO_VERL

YAML_FILES = YAML()


def also(graph: Path, **lists: str) -> None:
    """Put a name into lists of variants of a dvc.yaml."""
    values = read_yaml(graph)
    for name, variant in lists.items():
        values["vars"][0][name].append(variant)
    with graph.open("w") as file:
        YAML_FILES.dump(values, file)


@pytest.fixture
def project(repository_root: Path, tmp_path: Path) -> Path:
    """The root's graph with stand-ins for its commands; nothing has run."""
    root = tmp_path / "project"
    copy_graph(repository_root, root, {})
    shutil.copytree(repository_root / "recipes" / "verl", root / "recipes" / "verl")
    return root


def locked(root: Path) -> dict[str, object]:
    """The stages of dvc.lock as they stand there."""
    return dict(read_yaml(root / "dvc.lock")["stages"])


@pytest.mark.long
def test_a_change_of_the_recipe_makes_the_training_by_verl_old_and_no_other(project: Path) -> None:
    ours, verls = "train@grpo-think", "train_verl@verl"
    repro(project, ours)
    before = locked(project)
    assert not {"recipes/verl", *LENT_TO_VERL} & set(dvc.locked(project)[ours].dependencies)
    also(project / "dvc.yaml", by_verl="verl", compared="verl")
    assert dvc.changed(project, [ours]) == {}
    repro(project, verls)
    assert {name: stage for name, stage in locked(project).items() if name != verls} == before
    assert {"recipes/verl", *LENT_TO_VERL} < set(dvc.locked(project)[verls].dependencies)
    for file in ("recipes/verl/common.yaml", *LENT_TO_VERL):
        text = (project / file).read_text()
        (project / file).write_text(f"{text}# another\n")
        assert set(dvc.changed(project, [ours, verls])) == {verls}, file
        (project / file).write_text(text)


def test_it_is_named_like_any_variant_that_is_trained(project: Path, repository_root: Path) -> None:
    also(project / "dvc.yaml", by_verl="verl", compared="verl")
    steps = {step.name: step for step in dvc.plan(project)}
    assert dvc.trained(steps) == {"train@grpo-think": "grpo-think", "train_verl@verl": "verl"}
    assert dvc.trained(["x/dvc.yaml:train@a-s7", "x/dvc.yaml:converse@a-s7", "training@b"]) == {"x/dvc.yaml:train@a-s7": "a-s7"}
    assert "train_verl@verl" in steps["converse@verl"].needs and "train_verl@verl" in steps["report"].needs
    settings = load_settings(repository_root / "params.yaml", "verl")
    assert settings.train.engine == "verl" and settings.train.verl_recipe in steps["train_verl@verl"].reads
