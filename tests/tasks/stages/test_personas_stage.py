"""The personas stage: both files or neither, train and test proven apart, one line on what is wrong."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from profiles import STORY, profile, write_profiles
from ruamel.yaml import YAML

from rlver.components.domain.files import write_jsonl
from rlver.components.personas.generator import compose_personas
from rlver.components.personas.library import load_library
from rlver.components.personas.profiles import import_profiles
from rlver.components.personas.schema import InvalidPersonas, validate_file
from rlver.tasks.runtime import personas as files
from rlver.tasks.runtime.stage import run_stage
from rlver.tasks.stages import personas as stage

ROOT = Path(__file__).parents[3]


@pytest.fixture
def params(tmp_path: Path) -> Path:
    return write_params(tmp_path, train=48, test=24)


def write_params(folder: Path, **changes: Any) -> Path:
    values = YAML(typ="safe").load((ROOT / "params.yaml").read_text(encoding="utf-8"))
    values["personas"] |= changes
    path = folder / "params.yaml"
    with path.open("w", encoding="utf-8") as file:
        YAML().dump(values, file)
    return path


def run(params: Path, out: Path) -> int:
    return stage.main(["--out", str(out), "--metrics", str(out.parent / "metrics.json"), "--params", str(params)])


def generate(out: Path, seed: int) -> dict[str, Any]:
    return files.write_split(out, *compose_personas(load_library(), seed, train=16, test=8))


def import_rows(source: Path, out: Path, split: str) -> None:
    write_jsonl(out, [one.model_dump(mode="json") for one in import_profiles(source, split)])


def test_the_stage_writes_both_splits_and_proves_them_apart(params: Path, tmp_path: Path) -> None:
    assert run(params, tmp_path / "data") == 0

    metrics = json.loads((tmp_path / "metrics.json").read_text(encoding="utf-8"))
    assert (metrics["train"]["personas"], metrics["test"]["personas"]) == (48, 24)
    assert set(metrics["overlap"].values()) == {0}
    assert len(validate_file(tmp_path / "data" / "train.jsonl")) == 48
    assert sorted(one.name for one in (tmp_path / "data").iterdir()) == ["test.jsonl", "train.jsonl"]


def test_two_runs_give_identical_files(params: Path, tmp_path: Path) -> None:
    run(params, tmp_path / "one")
    run(params, tmp_path / "two")

    for name in ("train.jsonl", "test.jsonl"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


@pytest.fixture(autouse=True)
def _in_the_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "imported").mkdir()
    monkeypatch.chdir(tmp_path)


def test_a_file_that_dvc_does_not_watch_is_refused(tmp_path: Path) -> None:
    import_rows(write_profiles(tmp_path / "p.jsonl", profile()), tmp_path / "rows.jsonl", "test")
    for name in ("rows.jsonl", "imported/../rows.jsonl", str(tmp_path / "rows.jsonl")):
        with pytest.raises(ValueError, match=r"rows\.jsonl: move it into imported/, which DVC watches"):
            run(write_params(tmp_path, imported_test=name), tmp_path / "data")
    assert not (tmp_path / "data").exists()


def test_imported_sets_take_the_place_of_generated_ones(tmp_path: Path) -> None:
    people = {"train": [("a", "画画", "上海"), ("b", "爬山", "北京")], "test": [("c", "画画", "广州"), ("d", "唱歌", "杭州")]}
    for split, rows in people.items():
        source = write_profiles(
            tmp_path / f"{split}_profile.jsonl.gz",
            *(profile(id=name, player=profile()["player"] + hobby, scene=STORY + place) for name, hobby, place in rows),
        )
        import_rows(source, tmp_path / "imported" / f"{split}_rows.jsonl", split)
    params = write_params(tmp_path, imported_train="imported/train_rows.jsonl", imported_test="imported/test_rows.jsonl")

    assert run(params, tmp_path / "data") == 0
    assert [one.leaked for one in validate_file(tmp_path / "data" / "test.jsonl")] == [True, False]
    metrics = json.loads((tmp_path / "metrics.json").read_text(encoding="utf-8"))
    assert (metrics["test_leaked"], metrics["test_clean"]) == (1, 1)


def test_a_variant_says_which_personas(tmp_path: Path) -> None:
    import_rows(write_profiles(tmp_path / "profiles.jsonl", profile(id="a")), tmp_path / "imported" / "rows.jsonl", "train")
    params = write_params(tmp_path, train=8, test=8)
    (tmp_path / "params").mkdir()
    (tmp_path / "params" / "chinese.yaml").write_text("personas: {imported_train: imported/rows.jsonl}\n")
    arguments = ["--out", str(tmp_path / "data"), "--metrics", str(tmp_path / "m.json"), "--params", str(params)]
    assert stage.main([*arguments, "--variant", "chinese"]) == 0
    assert [one.language for one in validate_file(tmp_path / "data" / "train.jsonl")] == ["zh"]


def test_a_leaking_test_set_ends_with_one_line_and_nothing_written(
    params: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(params, tmp_path / "data")
    train = validate_file(tmp_path / "data" / "train.jsonl")[:8]
    stolen = [one.model_copy(update={"split": "test", "persona_id": one.persona_id.replace("train", "test")}) for one in train]
    write_jsonl(tmp_path / "imported" / "stolen.jsonl", [one.model_dump(mode="json") for one in stolen])
    leaking = write_params(tmp_path, imported_test="imported/stolen.jsonl", train=48)
    before = {path.name: path.read_bytes() for path in (tmp_path / "data").iterdir()}

    capsys.readouterr()
    arguments = ["--out", str(tmp_path / "data"), "--metrics", str(tmp_path / "new.json"), "--params", str(leaking)]
    assert run_stage(lambda: stage.main(arguments)) == 1
    said = capsys.readouterr().err
    assert said.startswith("error: train and test are not apart: 8 portraits") and said.count("\n") == 1
    assert {path.name: path.read_bytes() for path in (tmp_path / "data").iterdir()} == before
    assert not (tmp_path / "new.json").exists()


def test_a_file_imported_as_the_other_split_is_refused(tmp_path: Path) -> None:
    import_rows(write_profiles(tmp_path / "p.jsonl", profile()), tmp_path / "imported" / "rows.jsonl", "train")

    with pytest.raises(InvalidPersonas, match=r"1 row\(s\) are not of split 'test'"):
        run(write_params(tmp_path, imported_test="imported/rows.jsonl"), tmp_path / "data")
    assert not (tmp_path / "data").exists()


def test_no_disk_space_for_the_second_file_keeps_both_old_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "personas"
    folder.mkdir()
    generate(folder, seed=3)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    replace, moved = os.replace, []

    def failing(source: Path | str, target: Path | str) -> None:
        moved.append(Path(target).name)
        if Path(target).name == "test.jsonl":
            raise OSError(28, "No space left on device")
        replace(source, target)

    monkeypatch.setattr(os, "replace", failing)
    with pytest.raises(OSError, match="No space left"):
        generate(folder, seed=4)

    assert "train.jsonl" in moved
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize("replaced", [False, True])
def test_ctrl_c_between_the_two_files_leaves_both_old_ones_or_both_new_ones(
    replaced: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "personas"
    texts = []
    for seed in (4, 3):
        generate(folder, seed)
        texts.append({path.name: path.read_bytes() for path in folder.iterdir()})
    new, old = texts
    replace = os.replace

    def interrupted(source: Path | str, target: Path | str) -> None:
        is_second = Path(target).name == "test.jsonl" and Path(source).name == ".test.jsonl.new"
        if replaced or not is_second:
            replace(source, target)
        if is_second:
            raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        generate(folder, seed=4)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == (new if replaced else old)


def test_a_first_write_that_fails_halfway_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace = os.replace
    monkeypatch.setattr(
        os,
        "replace",
        lambda source, target: replace(source, target) if Path(target).name != "test.jsonl" else (_ for _ in ()).throw(OSError("full")),
    )

    with pytest.raises(OSError, match="full"):
        generate(tmp_path / "data", seed=4)
    assert list((tmp_path / "data").iterdir()) == []
