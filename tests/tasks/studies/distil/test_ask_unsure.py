"""`rlver ask-unsure`: the dialogues that the appraiser is least sure of go to an LLM user behind a real server, and can be learned from."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from llm_project import change
from scripted_server import Reply, good, serving_beside

from benchmarks.llm_server import counts, running
from rlver.components.domain.files import read_jsonl, write_jsonl
from rlver.components.domain.persona import Persona
from rlver.components.domain.transcript import Dialogue
from rlver.components.rollout.transcripts import load_transcripts
from rlver.components.users.distilled.folder import read_folder
from rlver.flows.cli import main
from rlver.tasks.studies.distil.doubts import Doubt, doubts, within
from rlver.tasks.studies.distil.examples import examples

MOST = 24
MODELS = Reply(body=b'{"data": [{"id": "user-model"}]}')


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with running() as url:
        yield url


@pytest.fixture
def asking(project: Path, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Recordings, their personas, and an LLM user; the current directory."""
    for name in ("params.yaml", "personas.jsonl"):
        shutil.copy(project / name, tmp_path / name)
    write_jsonl(tmp_path / "recorded.jsonl", [row for _, row in read_jsonl(project / "recorded.jsonl")][:40])
    change(tmp_path / "params.yaml", endpoint={"prices": {"user-model": {"million_in": 1.0, "million_out": 2.0}}})
    (tmp_path / "dvc.yaml").write_text("stages: {}\n")
    (tmp_path / "params").mkdir()
    (tmp_path / "params" / "v.yaml").write_text(
        "simulator: {llm: {appraiser: {model: user-model}}}\n"  # nobody speaks, so a speaker need not be named
    )
    (tmp_path / "params" / "both.yaml").write_text("simulator: {kind: llm, llm: {appraiser: {model: user-model}, speaker: {model: x}}}\n")
    monkeypatch.chdir(tmp_path)
    for name, value in (("RLVER_USER_URL", server), ("RLVER_USER_KEY", ""), ("RLVER_REPLAY", ""), ("RLVER_BUDGET", "")):
        monkeypatch.setenv(name, value)
    return tmp_path


def command(appraiser: Path, *more: str, variant: str = "v") -> list[str]:
    named = ["--appraiser", f"distilled:{appraiser}", "--replies", str(MOST), "--personas", "personas.jsonl", "--variant", variant]
    return ["ask-unsure", "recorded.jsonl", *named, "-o", "asked.jsonl", *more]


@pytest.mark.long
def test_the_least_sure_dialogues_are_asked_about_within_the_limit_and_become_recordings(
    asking: Path, appraiser: Path, people: list[Persona], server: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = counts(server)["calls"]
    assert main(command(appraiser)) == 0
    of = {persona.persona_id: persona for persona in people}
    asked, ordered = (
        load_transcripts(asking / "asked.jsonl"),
        doubts(read_folder(appraiser), load_transcripts(asking / "recorded.jsonl"), of),
    )
    assert {one.dialogue_id for one in asked} == {doubt.dialogue.dialogue_id for doubt in within(ordered, MOST)}
    assert ordered[0].dialogue.dialogue_id in {one.dialogue_id for one in asked}
    replies = sum(len(one.turns) for one in asked)
    assert counts(server)["calls"] - before == replies and 0 < replies <= MOST
    assert {one.simulator.kind for one in asked} == {"llm-appraiser"}
    assert len(examples(asked, of).change) == replies, "every answer is a row that can be learned from"
    assert examples(asked, of).reasons[0].startswith("They asked how my week was"), "with the model's reasons"
    first = (asking / "asked.jsonl").read_bytes()
    assert main(command(appraiser, "--replay")) == 0 and (asking / "asked.jsonl").read_bytes() == first
    assert counts(server)["calls"] - before == replies, "what was answered once is not asked again"
    assert "sure of the direction with probability 0." in capsys.readouterr().out


def test_a_budget_that_does_not_suffice_stops_it_and_nothing_is_written(
    asking: Path, appraiser: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command(appraiser, "--budget", "0.000001")) == 1
    assert "error: " in capsys.readouterr().err and not (asking / "asked.jsonl").exists()


@pytest.mark.parametrize("variant", ["v", "both"])
def test_a_model_without_a_usable_answer_is_said_to_have_none(
    variant: str, asking: Path, appraiser: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving_beside(lambda _, asked: good(asked, text="I would rather not say") if asked.body else MODELS) as server:
        monkeypatch.setenv("RLVER_USER_URL", server.url)
        assert main(command(appraiser, variant=variant)) == 1
    assert "gave no usable answer on any of" in capsys.readouterr().err and not (asking / "asked.jsonl").exists()


def test_only_a_learned_appraiser_has_doubts(asking: Path, capsys: pytest.CaptureFixture[str]) -> None:
    named = ["--appraiser", "scripted", "--replies", "9", "--personas", "personas.jsonl", "--variant", "v", "-o", "asked.jsonl"]
    assert main(["ask-unsure", "recorded.jsonl", *named]) == 1
    assert "'scripted' is no learned appraiser: write distilled:FOLDER" in capsys.readouterr().err


def test_users_it_abstains_from_come_first(appraiser: Path, recordings: list[Dialogue]) -> None:
    strange = [turn.model_copy(update={"user": "最近有些事搞得我头大，真让我摸不着头脑。"}) for turn in recordings[3].turns]
    foreign = recordings[3].model_copy(update={"dialogue_id": "z", "turns": tuple(strange)})
    assert doubts(read_folder(appraiser), [*recordings[:3], foreign], {})[0] == Doubt(0.0, foreign)


def test_what_does_not_fit_is_passed_over(recordings: list[Dialogue]) -> None:
    longest = recordings[0].model_copy(update={"turns": recordings[0].turns[:1] * 9})
    short = recordings[0].model_copy(update={"turns": recordings[0].turns[:1] * 2})
    assert [doubt.dialogue for doubt in within([Doubt(0.5, short), Doubt(0.6, longest), Doubt(0.7, short)], 5)] == [short, short]
