"""What is known of a stage: the stamps and MD5s of its files, its parameters."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tracked_project import DATA, LOCK

from rlver.components.domain.files import write_json, write_jsonl
from rlver.tasks.graph.lock import md5_of
from rlver.tasks.runtime.stage import costs_file
from rlver.tasks.tracking import records
from rlver.tasks.tracking.models import speaking
from rlver.tasks.tracking.records import File, effective_parameters, stamp, stamped


def test_a_stamp_changes_with_what_it_is_of_and_a_file_that_went_spoils_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "weights").write_text("1")
    before, kept = stamp(folder), stamped(folder, "models", "abc")
    (folder / "gone").symlink_to(tmp_path / "nowhere")  # as a file that goes while the folder is listed
    assert stamp(folder) == before and kept.is_unchanged
    (folder / "weights").write_text("12")
    assert stamp(folder) != before and not kept.is_unchanged
    assert stamp(tmp_path / "nowhere") == "" and not File(tmp_path / "nowhere", "nowhere", "abc").is_unchanged


def test_an_overlay_replaces_what_it_extends_whatever_their_names_are() -> None:
    files = {
        "params.yaml": {"policy": {"thinking": False, "temperature": 1.0}},
        "params/gemma-1b.yaml": {"extends": "pretrained", "policy": {"temperature": 0.7}},
        "params/pretrained.yaml": {"policy": {"temperature": 0.5, "max_reply_tokens": 40}},
    }
    for by_file in (files, dict(reversed(files.items()))):
        found = effective_parameters(by_file)
        assert (found["policy.temperature"], found["policy.max_reply_tokens"], found["policy.thinking"]) == ("0.7", "40", "False")


def test_a_file_of_a_folder_has_its_own_md5(finished: Path) -> None:
    """So a data set that one stage wrote is the one that another reads."""
    train, test = (finished / "data/personas/train.jsonl", finished / "data/personas/test.jsonl")
    (written_test, written_train) = records.read(finished, "personas", LOCK).datasets
    assert (written_test.md5, written_train.md5) == (md5_of(test), md5_of(train)) and DATA not in written_test.md5


def test_a_base_talks_as_its_variant_says_and_in_the_language_of_its_users(finished: Path, repository_root: Path) -> None:
    """Its stage declares none of `policy`, and reads no personas."""
    (finished / "params.yaml").write_bytes((repository_root / "params.yaml").read_bytes())
    (finished / "params").mkdir()
    overlay = "policy: {thinking: false, max_reply_tokens: 9}\npersonas: {imported_test: zh.jsonl}\n"
    (finished / "params" / "raw.yaml").write_text(overlay)
    lock = {"base": replace(LOCK["train@v"], name="base", parameters={}, dependencies={}, command_variant="raw")}
    spoken = [records.read(finished, "base", lock).speaking]  # the personas are not here
    write_jsonl(finished / "zh.jsonl", [{"language": "zh"}])
    spoken.append(records.read(finished, "base", lock).speaking)
    assert [speaking(one, "raw")["language"] for one in spoken] == ["en", "zh"]
    assert speaking(spoken[1], "raw") == {
        "thinking": False, "language": "zh", "seed": 0, "name": "raw",
        "temperature": 1.0, "top_p": 1.0, "max_reply_tokens": 9, "max_context_tokens": int(spoken[0]["policy.max_context_tokens"]),
    }  # fmt: skip
    assert records.read(finished, "report", LOCK).speaking == {}, "a stage without models"


def test_a_policy_talks_as_it_was_trained_with_whom_it_was_trained(finished: Path) -> None:
    write_jsonl(finished / "data/personas/train.jsonl", [{"persona_id": "p", "language": "zh"}])
    trained = {"policy": {"thinking": True, "temperature": 0.5}}
    lock = {"train@v": replace(LOCK["train@v"], parameters={"params.yaml": trained})}
    found = speaking(records.read(finished, "train@v", lock).speaking, "v")
    assert found == {"thinking": True, "temperature": 0.5, "language": "zh", "seed": 0, "name": "v"}
    assert speaking({}, "v") == {}


def test_of_a_stage_with_two_outputs_both_have_their_costs(finished: Path) -> None:
    one, two = "transcripts/one.jsonl", "transcripts/two.jsonl"
    for output, money in ((one, 3.0), (two, 4.0)):
        write_json(finished / costs_file(Path(output)), {"user": {"money": money}})

    def spent(*outputs: str) -> dict[str, float]:
        lock = {"personas": replace(LOCK["personas"], outputs=dict.fromkeys(outputs, DATA))}
        return {name: value for name, value in records.read(finished, "personas", lock).metrics.items() if "money" in name}

    assert spent(one) == {"user/money": 3.0}
    assert spent(one, two) == {"one/user/money": 3.0, "two/user/money": 4.0}
