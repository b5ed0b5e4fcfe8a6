"""Stage warmup on a model of one layer: what it learns of, what it keeps back, what it writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from micro import SENTENCES, micro_model, micro_tokenizer
from ruamel.yaml import YAML
from safetensors.torch import load_file
from small_project import make_project, weights

from rlver.components.labels import warmup as dialogues
from rlver.components.policy.load import save_policy
from rlver.tasks.stages import warmup

FIRST = [f"{SENTENCES[n % 6]} {SENTENCES[n % 5]}" for n in range(26)]


def held_out(first: str) -> bool:
    return dialogues.is_held_out(dialogues.Shown((first,), ("",), ("good",), "deep_empathy"))


COUNT, HELD = len(FIRST), sum(map(held_out, FIRST))


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a model and a few dialogues in place of the shipped ones."""
    make_project(tmp_path)
    values = YAML(typ="safe").load((tmp_path / "params.yaml").read_text())
    values["warmup"] |= {
        "dialogues": ["shown"],
        "rounds": 3,
        "good_only": False,
        "learning_rate": 0.02,
        "batch_tokens": 300,
    }
    YAML(typ="safe").dump(values, tmp_path / "params.yaml")
    save_policy(micro_model(), micro_tokenizer(), tmp_path / "models" / "base")
    lines = [f"# {n}\nU: {FIRST[n]}\nA: [good] {SENTENCES[0]}\nU: {SENTENCES[3]}\nA: [mediocre] {SENTENCES[2]}\n" for n in range(COUNT)]
    (tmp_path / "shown.txt").write_text("".join(lines))
    monkeypatch.setattr(dialogues, "DIALOGUES", tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(out: str = "models/warm", variant: str = "v", base: str = "models/base") -> dict[str, Any]:
    metrics = Path("metrics") / f"{Path(out).name}.json"
    assert warmup.main(["--variant", variant, "--base", base, "--out", out, "--metrics", str(metrics)]) == 0
    found: dict[str, Any] = json.loads(metrics.read_text())
    return found


def test_it_is_learned_what_is_shown_and_the_same_weights_come_of_it_again(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = run()
    assert found["dialogues"] == COUNT - HELD and found["steps"] > 0 and found["tokens"] > 0
    assert found["held_out_loss_after"] < found["held_out_loss_before"] - 0.1
    assert not torch.equal(weights(root / "models" / "warm"), weights(root / "models" / "base"))
    assert f"{COUNT - HELD} dialogues, loss on {HELD} that were not shown" in capsys.readouterr().out
    again = run("models/again")
    assert torch.equal(weights(root / "models" / "warm"), weights(root / "models" / "again"))
    assert {**again, "seconds": 0} == {**found, "seconds": 0}


def test_a_collection_of_which_nothing_is_held_out_is_refused(root: Path) -> None:
    (root / "shown.txt").write_text(f"# 1\nU: {next(one for one in FIRST if not held_out(one))}\nA: [good] {SENTENCES[0]}\n")
    with pytest.raises(ValueError, match="no dialogue is left to be held out"):
        run()


@pytest.fixture
def taught(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What weighs anything, of each lesson; nothing is learned."""
    from rlver.components.policy import supervised

    found: list[list[str]] = []

    def listen(model: Any, lessons: Any, *others: Any) -> Any:
        tokenizer = micro_tokenizer()
        for lesson in lessons:
            weighed = [[token for token, weight in zip(one.ids, one.weights, strict=True) if weight] for one in lesson]
            found.append([tokenizer.decode(ids, skip_special_tokens=True) for ids in weighed])
        return supervised.WarmStarted(1, 1, 0.0, 1.0, 1.0, False)

    monkeypatch.setattr(supervised, "warm_start", listen)
    return found


def test_the_users_words_are_not_taught(root: Path, taught: list[list[str]]) -> None:
    run()
    assert [len(lesson) for lesson in taught] == 3 * [COUNT - HELD], "every round is a lesson"
    assert {text for lesson in taught for text in lesson} == {SENTENCES[0] + SENTENCES[2]}


def test_only_good_replies_are_taught(root: Path, taught: list[list[str]]) -> None:
    values = YAML(typ="safe").load(Path("params.yaml").read_text())
    values["warmup"]["good_only"] = True
    YAML(typ="safe").dump(values, Path("params.yaml"))
    run()
    assert taught == 3 * [(COUNT - HELD) * [SENTENCES[0]]]


def test_a_variant_that_thinks_is_refused(root: Path) -> None:
    (root / "params" / "thinker.yaml").write_text("policy: {thinking: true}\n")
    with pytest.raises(ValueError, match=r"variant thinker: the warm-up dialogues have no thoughts: set policy\.thinking: false"):
        run(variant="thinker")
    assert not (root / "models" / "warm").exists()


def test_without_a_model_it_says_so_and_writes_nothing(root: Path) -> None:
    with pytest.raises(ValueError, match="cannot load a policy from models/nothing") as refusal:
        run(base="models/nothing")
    assert "\n" not in str(refusal.value) and not (root / "models" / "warm").exists() and not (root / "metrics").exists()


def test_so_many_of_each_collection_are_drawn_and_those_of_an_inner_list_are_shown_at_once(root: Path, taught: list[list[str]]) -> None:
    other = [f"# {n}\nU: {FIRST[n]}\nA: [good] {SENTENCES[4]}\n" for n in range(COUNT)]
    (root / "other.txt").write_text("".join(other))
    overlay = root / "params" / "v.yaml"
    overlay.write_text("warmup: {dialogues: [[shown, other], other], rounds: 1, good_only: true, at_most: 3}\n")
    run()
    assert taught == [[SENTENCES[0]] * 3 + [SENTENCES[4]] * 3, [SENTENCES[4]] * 3]
    taught.clear()
    overlay.write_text("warmup: {dialogues: [shown, other, shown], rounds: 1, good_only: true, at_most: 2}\n")
    run()
    assert taught == [[SENTENCES[0]] * 2, [SENTENCES[4]] * 2, [SENTENCES[0]] * 2], "what is named twice is shown twice"


def test_only_the_upper_layers_learn(root: Path) -> None:
    (root / "params" / "v.yaml").write_text("warmup: {trained_layers: 1}\n")
    save_policy(micro_model(layers=2), micro_tokenizer(), root / "models" / "base")
    run()
    before, after = (load_file(root / "models" / name / "model.safetensors") for name in ("base", "warm"))
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed and all(name.startswith(("model.layers.1.", "model.norm.")) for name in changed)
