"""A report of transcripts alone: `rlver report FILE…`, imported recordings included."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from report_run import make_dialogues, make_failed, write_run

from rlver.components.domain.files import BadFile, write_jsonl
from rlver.components.domain.transcript import Dialogue
from rlver.components.formats.sage import dialogue_of
from rlver.components.report.material import material_of
from rlver.components.report.page import page
from rlver.components.report.panels.panel import ReportRun
from rlver.components.scoring.units import Sampling
from rlver.flows.cli import main

PARAMS = Path(__file__).parents[3] / "params.yaml"
BARE = ReportRun(seed=7, margin=0.05, model=None, is_bare=True)


def write(folder: Path, name: str, dialogues: list[Dialogue]) -> Path:
    path = folder / f"{name}.jsonl"
    write_jsonl(path, [dialogue.model_dump(mode="json") for dialogue in dialogues])
    return path


def recorded(number: int, policy: str, change: int) -> Dialogue:
    """A dialogue as SAGE records it: Chinese, its own words for need and class, no acts, no cues, no tokens."""
    planning = {"content": "这条回复在安慰我", "TargetCompletion": "没有", "activity": "又是空话", "analyse": "有点失望", "change": change}
    emotions = [40, 40 + change, 40 + 2 * change]
    history = [
        {"role": "user", "content": "最近有些事搞得我头大。", "emotion-point": emotions[0]},
        {"role": "assistant", "content": "我理解你的感受。"},
        {"role": "user", "content": "你不懂。", "emotion-point": emotions[1], "thinking": "", "planning": planning},
        {"role": "assistant", "content": "请多说一点。"},
        {"role": "user", "content": "算了。", "emotion-point": emotions[2], "thinking": "", "planning": planning},
    ]
    record = {
        "id": f"profile-{number}", "emo_point": emotions[-1], "emo_state": "Emotion-B", "target": "eq", "player": "王小云", "scene": "",
        "character": ("负面型", "被动型")[number % 2], "topic": "", "task": "你希望对方能够深度共情", "history": history,
    }  # fmt: skip
    return dialogue_of(record, policy)


@pytest.mark.long
def test_the_command_makes_a_whole_report_of_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    run = write_run(tmp_path / "run", personas=24)
    files = [str(run / "transcripts" / f"{name}.jsonl") for name in ("grpo-think", "base")]
    assert main(["report", *files, "-o", str(tmp_path / "out"), "--params", str(PARAMS)]) == 0
    assert capsys.readouterr().out.strip() == f"report: {tmp_path / 'out' / 'index.html'}"
    text = (tmp_path / "out" / "index.html").read_text()
    assert "Made from transcripts alone." in text and "points above the base policy" in text
    assert "RLVER paper, Table 1" not in text and 'id="learning"' not in text and 'id="ability"' not in text
    results = (tmp_path / "out" / "tables" / "results.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in results] == ["policy", "base", "grpo-think"]
    stored = json.loads((run / "metrics" / "grpo-think" / "sentient.json").read_text())
    assert f",{stored['emotion_mean']}," in results[2]  # what the score stage found


@pytest.mark.long
def test_files_of_others_are_not_taken_for_an_older_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    write_jsonl(tmp_path / "a.jsonl", [one.model_dump(mode="json") for one in make_dialogues("a", 4, 0.5, 7)])
    mine = tmp_path / "work" / "plots" / "my-own.png"
    mine.parent.mkdir(parents=True)
    mine.write_bytes(b"mine")
    asked = ["report", str(tmp_path / "a.jsonl"), "-o", str(tmp_path / "work")]
    assert main(asked) == 1 and mine.read_bytes() == b"mine"
    assert (
        "my-own.png is there and no report beside it: a report replaces all of plots/ and tables/; name another folder"
        in capsys.readouterr().err
    )
    mine.unlink()
    assert main(asked) == main(asked) == 0, "over an older report of ours it writes"


@pytest.mark.long
def test_a_folder_is_all_its_transcripts_and_any_policy_can_be_the_base(tmp_path: Path):
    run = write_run(tmp_path / "run", personas=24)
    arguments = ["report", str(run / "transcripts"), "--base", "grpo-think", "-o", str(tmp_path / "out"), "--params", str(PARAMS)]
    assert main(arguments) == 0
    assert "points below the base policy" in (tmp_path / "out" / "index.html").read_text()


def test_recordings_in_another_language_without_acts_are_reported(tmp_path: Path):
    dialogues = {name: [recorded(number, name, change) for number in range(4)] for name, change in (("gpt", 10), ("qwen", -10))}
    paths = [write(tmp_path, name, found) for name, found in dialogues.items()]
    material = material_of(paths, None, {}, Sampling(200, 7))
    assert material.base is None
    assert material.classes == {f"profile-{n}": ("negative", "passive")[n % 2] for n in range(4)}
    assert [number for number, _ in material.numbered] == [1, 2]  # grey is the base's alone
    text = page(material, BARE, {})
    assert "estimate from dialogue acts" not in text and "What each strategy brings" not in text, "these dialogues have no acts"
    assert 'id="strategies"' not in text and "Several users were at work" not in text
    assert "gpt leaves its users at 60.0" in text and "Deep empathy" in text and "Passive" in text


def test_a_policy_of_which_nothing_could_be_scored_says_so(tmp_path: Path):
    paths = [write(tmp_path, "good", make_dialogues("good", 4, 0.5, 1)), write(tmp_path, "broken", [make_failed("broken", 0)])]
    assert "None of the dialogues of broken could be scored." in page(material_of(paths, None, {}, Sampling(200, 7)), BARE, {})


def test_beside_a_base_of_which_nothing_could_be_scored_the_others_stand_alone(tmp_path: Path):
    paths = [write(tmp_path, "base", [make_failed("base", 0)]), write(tmp_path, "good", make_dialogues("good", 4, 0.5, 1))]
    material = material_of(paths, None, {}, Sampling(200, 7))
    assert material.variants[1].sentient is not None and material.variants[1].sentient["paired_to_base"] is None
    assert "None of the dialogues of base could be scored." in page(material, BARE, {})


def test_dialogues_with_different_users_side_by_side_carry_a_warning(tmp_path: Path):
    paths = [write(tmp_path, "scripted", make_dialogues("scripted", 4, 0.5, 1)), write(tmp_path, "gpt", [recorded(1, "gpt", 5)])]
    assert "Scores of different users are not comparable." in page(material_of(paths, None, {}, Sampling(200, 7)), BARE, {})
    with pytest.raises(ValueError, match="different simulators"):
        material_of(paths, "gpt", {}, Sampling(200, 7))


def test_mistakes_are_one_readable_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = write(tmp_path, "one", make_dialogues("one", 2, 0.5, 1))
    with pytest.raises(BadFile, match="--base other: no such policy here; there are one"):
        material_of([path], "other", {}, Sampling(200, 7))
    again = write(tmp_path / "again", "one", make_dialogues("one", 2, 0.5, 1))
    with pytest.raises(BadFile, match="two transcript files are called one"):
        material_of([path, again], None, {}, Sampling(200, 7))
    (tmp_path / "empty").mkdir()
    assert main(["report", str(tmp_path / "empty"), "--params", str(PARAMS)]) == 1
    assert main(["report", "--base", "one"]) == 1
    errors = capsys.readouterr().err
    assert "no transcripts (*.jsonl) in this folder" in errors and "name the files" in errors
