"""`rlver verify FOLDER`: a line for each transcript of a run, and the first difference ends it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from fakes import people, scripted_dialogues
from llm_project import make_llm_project
from micro import micro_model, micro_tokenizer

from benchmarks.llm_server import running
from rlver.components.domain.files import write_jsonl
from rlver.components.domain.transcript import Dialogue, SimulatorTag
from rlver.components.policy.load import save_policy
from rlver.flows.cli import main
from rlver.tasks.runtime import verification


def write(path: Path, dialogues: list[Dialogue]) -> None:
    write_jsonl(path, [dialogue.model_dump(mode="json") for dialogue in dialogues])


@pytest.fixture
def run(tmp_path: Path, repository_root: Path) -> Path:
    """A run with three transcripts, personas in two files, and a partial file that nobody reads; not the current directory."""
    folder = tmp_path / "run"
    dialogues = scripted_dialogues(count=4)
    for place in ("transcripts/base.jsonl", "transcripts/robustness/p-1/unshifted.jsonl"):
        write(folder / place, dialogues)
    write(folder / "paper" / "transcripts" / "grpo-direct-s7" / "challenging.jsonl", scripted_dialogues(count=2, difficulty="challenging"))
    (folder / "transcripts" / "b.jsonl.partial").write_text("{")
    for name, personas in (("train", people()[1][:1]), ("test", people()[1][1:])):
        write_jsonl(folder / "data" / "personas" / f"{name}.jsonl", [persona.model_dump(mode="json") for persona in personas])
    shutil.copy(repository_root / "params.yaml", folder)
    shutil.copytree(repository_root / "params", folder / "params")
    return folder


def test_every_transcript_of_a_run_is_derived_again(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(run)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(": ")[0].removeprefix(f"{run}/") for line in lines] == [
        "transcripts/base.jsonl",
        "transcripts/robustness/p-1/unshifted.jsonl",
        "paper/transcripts/grpo-direct-s7/challenging.jsonl",
    ]
    assert all(line.endswith("every emotion follows from its replies") for line in lines)


def test_pipelines_bring_personas_of_their_own_and_all_are_verified(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run / "pretrained").mkdir()
    (run / "data").rename(run / "pretrained" / "data")
    write(run / "bigger" / "transcripts" / "qwen2.5-0.5b-raw.jsonl", scripted_dialogues(count=2))
    assert main(["verify", str(run)]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith(f"{run}/bigger/transcripts/qwen2.5-0.5b-raw.jsonl: ")


def test_each_pipeline_is_verified_with_its_own_personas(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two may have others under one id: the class hangs on how many there are."""
    (own,) = people()[1][:1]
    stranger = next(one for one in people()[1] if one.persona_class != own.persona_class)
    other = own.model_copy(update={"persona_class": stranger.persona_class, "traits": stranger.traits})
    write_jsonl(run / "pretrained" / "data" / "personas" / "test.jsonl", [other.model_dump(mode="json")])
    assert main(["verify", str(run)]) == 0, capsys.readouterr().err
    write(run / "pretrained" / "transcripts" / "x.jsonl", [one for one in scripted_dialogues(count=4) if one.persona_id == own.persona_id])
    assert main(["verify", str(run)]) == 1, "of another class it cannot have been held"
    assert "pretrained/transcripts/x.jsonl:1: dialogue" in capsys.readouterr().err


def test_of_dialogues_that_were_only_appraised_it_says_what_was_not_derived(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    appraised = run / "transcripts" / "appraised.jsonl"
    assert main(["appraise", str(run / "transcripts" / "base.jsonl"), "-o", str(appraised), "--params", str(run / "params.yaml")]) == 0
    assert main(["verify", str(appraised)]) == 0
    said = "of 4 only the appraisals were derived: the user's words, where they begin and why they end are as recorded\n"
    assert capsys.readouterr().out.endswith(f"every emotion follows from its replies; {said}")


def test_an_llm_user_without_its_answers_is_not_verified(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    llm = SimulatorTag(kind="llm", difficulty="vanilla", version="anything")
    write(run / "transcripts" / "a.jsonl", [one.model_copy(update={"simulator": llm}) for one in scripted_dialogues(count=1)])
    assert main(["verify", str(run)]) == 1
    assert "NOT VERIFIED" in (line := capsys.readouterr().out.splitlines()[0]) and "its answers are not in" in line


def test_an_appraiser_that_was_learned_is_looked_for_in_the_run(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = SimulatorTag(kind="distilled-appraiser-without-persona", difficulty="vanilla", version="distilled-2 0123")
    write(run / "transcripts" / "a.jsonl", [one.model_copy(update={"simulator": own}) for one in scripted_dialogues(count=1)])
    params = run / "params.yaml"
    params.write_text(params.read_text().replace("  appraiser: null", "  appraiser: distilled:models/learned"))
    assert main(["verify", str(run)]) == 1
    assert f"the appraiser it was held with is not in {run / 'models' / 'learned'}" in capsys.readouterr().out.splitlines()[0]


@pytest.mark.parametrize(
    ("file", "variant"),
    [
        ("recipes/transcripts/qwen7b-grpo_lora-think-vanilla-chinese.jsonl", "qwen7b-grpo_lora-think-vanilla-chinese"),
        ("bigger/transcripts/qwen2.5-0.5b-raw.jsonl", "qwen2.5-0.5b"),
        ("bigger/transcripts/qwen2.5-0.5b-warmup.jsonl", "qwen2.5-0.5b"),
        ("pretrained/transcripts/pretrained-warmup.jsonl", "pretrained-warmup"),
        ("pretrained/transcripts/pretrained-raw.jsonl", "pretrained-raw"),
        ("paper/transcripts/grpo-direct-s7/challenging.jsonl", "grpo-direct"),
        ("transcripts/mine.jsonl", None),
    ],
)
def test_a_transcript_is_verified_with_the_parameters_of_its_variant(run: Path, file: str, variant: str | None) -> None:
    assert verification._variant(run / file, run) == variant


def test_the_first_difference_ends_it(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dialogues = scripted_dialogues(count=4)
    turn = dialogues[1].turns[0].model_copy(update={"user": "I feel splendid."})
    dialogues[1] = dialogues[1].model_copy(update={"turns": (turn, *dialogues[1].turns[1:])})
    place = run / "transcripts" / "robustness" / "p-1" / "unshifted.jsonl"
    write(place, dialogues)
    assert main(["verify", str(run)]) == 1
    shown = capsys.readouterr()
    assert len(shown.out.splitlines()) == 1
    assert f"error: {place}:2: dialogue {dialogues[1].dialogue_id}: turn 1: user: expected" in shown.err


def test_what_nobody_can_derive_is_told_and_does_not_pass(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sage = SimulatorTag(kind="sage", difficulty="vanilla", version="recorded")
    write(run / "transcripts" / "a.jsonl", [one.model_copy(update={"simulator": sage}) for one in scripted_dialogues(count=1)])
    assert main(["verify", str(run)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4 and lines[0].startswith("NOT VERIFIED") and "its user was sage" in lines[0]
    assert sum("every emotion follows" in line for line in lines) == 3


def test_a_folder_without_transcripts_or_personas_is_refused(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(tmp_path / "data")]) == 1
    shutil.rmtree(run / "data")
    assert main(["verify", str(run)]) == 1
    assert "no personas (*.jsonl) there" in capsys.readouterr().err
    assert main(["verify", str(run / "params")]) == 1
    assert "no transcripts in transcripts, paper/transcripts, recipes/transcripts, pretrained/transcripts" in capsys.readouterr().err


@pytest.mark.long
def test_a_run_with_an_llm_user_is_derived_from_the_answers_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    make_llm_project(folder)
    save_policy(micro_model(scale=2.0), micro_tokenizer(), folder / "models" / "base")
    (folder / "dvc.yaml").write_text("stages: {}\n")
    (folder / "data" / "personas").mkdir(parents=True)
    shutil.copy(folder / "test.jsonl", folder / "data" / "personas")
    with running() as url, monkeypatch.context() as inside:
        inside.chdir(folder)
        for name, value in (("RLVER_USER_URL", url), ("RLVER_REPLAY", ""), ("RLVER_BUDGET", "")):
            monkeypatch.setenv(name, value)
        command = ["converse", "--policy", "models/base", "--variant", "v", "--limit", "2", "-o", "transcripts/v.jsonl"]
        assert main(command) == 0
    capsys.readouterr()
    assert main(["verify", str(folder)]) == 0
    assert (
        capsys.readouterr()
        .out.strip()
        .endswith(f"every emotion follows from its replies and the answers in {folder / 'answers' / 'user.db'}")
    )
