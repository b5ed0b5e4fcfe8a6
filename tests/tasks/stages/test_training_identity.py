"""What a half-done training belongs to: it is gone on with only where settings, data, code and base are unchanged, and who begins anew is told."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from small_project import make_base, make_project

from rlver.components.settings.settings import Settings, digest_of, load_settings
from rlver.tasks.runtime.fingerprints import check_identity, half_done, training_identity


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With two bases, `base` and `whole`."""
    root = tmp_path_factory.mktemp("identity")
    make_project(root)
    make_base(root)
    shutil.copytree(root / "models" / "base", root / "models" / "whole")
    (root / "models" / "whole" / "model.safetensors").write_bytes(b"other weights")
    return root


@pytest.fixture(autouse=True)
def in_project(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)


def identity(settings: Settings, personas: str = "train.jsonl", model: str = "base", processes: int = 1) -> dict[str, Any]:
    return training_identity(settings, Path(personas), Path("models") / model, processes)


def test_a_checkpoint_belongs_to_what_decides_the_result(root: Path) -> None:
    settings = load_settings(Path("params.yaml"), "v")
    mark = identity(settings)
    assert mark == identity(settings)
    assert {
        "components/domain/prompts/think.en.txt", "components/users/scripted/cues.yaml", "components/training/ppo.py",
        "models/base/tokenizer.json", "models/base/model.safetensors", "tasks/stages/train.py", "train.jsonl", "train.learning_rate",
    } <= mark.keys()  # fmt: skip
    others = (
        identity(settings, personas="test.jsonl"),
        identity(settings, model="whole"),
        identity(settings, processes=2),
        identity(settings.model_copy(update={"seed": 8})),
    )
    assert len({digest_of(one) for one in (mark, *others)}) == 5
    limits = settings.model_copy(
        update={
            "rollout": settings.rollout.model_copy(
                update={"max_failure_rate": 0.5, "concurrency": 99, "server_memory_share": 0.3, "server_gpus": "1"}
            ),
            "train": settings.train.model_copy(update={"min_entropy": 0.3, "max_repeat_rate": 0.1}),
        }
    )
    assert identity(limits) == mark, "what only stops a run, or spares memory, does not begin it anew"


def test_the_distilled_appraiser_is_part_of_what_was_begun(root: Path, tmp_path: Path) -> None:
    settings = load_settings(Path("params.yaml"), "v")
    (tmp_path / "appraiser.json").write_text("{}")
    with_it = settings.model_copy(update={"simulator": settings.simulator.model_copy(update={"appraiser": f"distilled:{tmp_path}"})})
    before = identity(with_it)
    (tmp_path / "appraiser.json").write_text('{"version": 2}')
    assert before != identity(with_it)


def test_a_run_that_was_begun_as_something_else_is_refused_by_name(root: Path, tmp_path: Path) -> None:
    mark = identity(load_settings(Path("params.yaml"), "v"))
    check_identity(tmp_path, mark)
    check_identity(tmp_path, mark)
    with pytest.raises(ValueError, match=r"begun with train\.learning_rate = 0\.\d+, now it is 0\.5; delete the folder to start over"):
        check_identity(tmp_path, mark | {"train.learning_rate": 0.5})
    with pytest.raises(ValueError, match=r"begun with train\.jsonl = '\w+', now it is 'other'"):
        check_identity(tmp_path, mark | {"train.jsonl": "other"})


def test_who_begins_anew_is_told_of_the_half_done_training_and_what_differs(root: Path, tmp_path: Path) -> None:
    mark = identity(load_settings(Path("params.yaml"), "v"))
    for name, began, done in (
        ("v-" + "0" * 12, {"train.beta": 9, "seed": 8}, 1),
        ("v-" + "1" * 12, {"seed": 8}, 2),
        ("v-x-" + "2" * 12, {}, 1),
    ):
        check_identity(tmp_path / name, mark | began)
        (tmp_path / name / "checkpoints" / f"checkpoint-{done}").mkdir(parents=True)
    of_old = tmp_path / ("v-" + "4" * 12)  # of a version that had no such parameters
    check_identity(of_old, {"seed": 8})
    (of_old / "checkpoints" / "checkpoint-1").mkdir(parents=True)
    now = tmp_path / ("v-" + "3" * 12)
    check_identity(now, mark)
    (line,) = half_done(now, mark)
    half = tmp_path / ("v-" + "0" * 12)
    assert line == (
        f"not going on with {half} (step 1 of 2): it was begun with seed = 8, now it is 7 and 1 more; put that back to go on with it"
    )


def test_the_setting_decides_the_result_where_it_is_false_and_old_runs_keep_their_identity(root: Path) -> None:
    (root / "params" / "light.yaml").write_text("policy: {thinking: false}\ntrain: {checkpoint_optimizer: false}\n")
    plain, light = (load_settings(Path("params.yaml"), name) for name in ("v", "light"))
    assert "checkpoint_optimizer" not in plain.train.model_dump()
    assert not [name for name in identity(plain) if "checkpoint_optimizer" in name]
    assert identity(light) == identity(plain) | {"train.checkpoint_optimizer": False}
    assert digest_of(identity(light)) != digest_of(identity(plain)) and light.digest() != plain.digest()
