"""The distilled appraiser in every command: appraise, verify, converse, and what it refuses."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path

import pytest
from fakes import REPLIES, FakeSampler, LetterChat, difference_of

from rlver.components.domain.emotion import EmotionRules
from rlver.components.domain.files import write_jsonl
from rlver.components.domain.persona import Persona
from rlver.components.domain.transcript import Dialogue
from rlver.components.policy.token_policy import Speaking, TokenPolicy
from rlver.components.rollout.episode import Job, run_episodes
from rlver.components.rollout.transcripts import load_transcripts
from rlver.components.settings.settings import load_settings
from rlver.components.users.together import Together
from rlver.flows.cli import main
from rlver.tasks.runtime.assembly import simulator


@pytest.mark.long
def test_what_it_appraised_can_be_verified_and_a_changed_point_is_found(
    project: Path, appraiser: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(project)
    named, out = f"distilled:{appraiser}", tmp_path / "again.jsonl"
    with_personas = ["--personas", str(project / "personas.jsonl")]
    assert main(["appraise", str(project / "recorded.jsonl"), "--appraiser", named, "-o", str(out), *with_personas]) == 0
    dialogues = load_transcripts(out)
    assert len(dialogues) == 240 and {one.simulator.kind for one in dialogues} == {"distilled-appraiser"}
    assert main(["verify", str(out), "--appraiser", named, *with_personas]) == 0
    assert "every emotion follows from its replies" in capsys.readouterr().out
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    rows[3]["turns"][0]["appraisal"]["evidence"][-1]["what"] = "sure:0.99"
    write_jsonl(tmp_path / "touched.jsonl", rows)
    assert main(["verify", str(tmp_path / "touched.jsonl"), "--appraiser", named, *with_personas]) == 1
    assert f"dialogue {rows[3]['dialogue_id']}: turn 1: appraisal.evidence" in capsys.readouterr().err
    assert main(["verify", str(out), *with_personas]) == 1
    assert "--appraiser distilled:FOLDER" in capsys.readouterr().err


def test_users_it_knows_nothing_of_are_unscorable(
    project: Path, appraiser: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(project)
    write_jsonl(
        tmp_path / "foreign.jsonl", [{"turns": [{"user": "最近有些事搞得我头大，真让我摸不着头脑。", "assistant": "Tell me more."}]}]
    )
    assert (
        main(["appraise", str(tmp_path / "foreign.jsonl"), "--appraiser", f"distilled:{appraiser}", "-o", str(tmp_path / "out.jsonl")]) == 0
    )
    assert "none of them scorable" in capsys.readouterr().out
    (dialogue,) = load_transcripts(tmp_path / "out.jsonl")
    assert dialogue.emotion_final is None and "the user is unlike those the appraiser was learned from" in str(dialogue.error)


def test_without_its_fidelity_card_nothing_is_appraised(
    project: Path, appraiser: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(project)
    bare, out = tmp_path / "bare", tmp_path / "out.jsonl"
    shutil.copytree(appraiser, bare, ignore=shutil.ignore_patterns("fidelity*"))
    assert main(["appraise", "recorded.jsonl", "--appraiser", f"distilled:{bare}", "-o", str(out)]) == 1
    assert "fidelity" in capsys.readouterr().err and not out.exists()


def test_scripted_speakers_feel_as_it_says_and_can_be_verified(project: Path, appraiser: Path, people: list[Persona]) -> None:
    settings = load_settings(project / "params.yaml")
    chosen = settings.model_copy(update={"simulator": settings.simulator.model_copy(update={"appraiser": f"distilled:{appraiser}"})})
    user = simulator(chosen)
    assert isinstance(user, Together) and user.tag.kind == "distilled+scripted"
    jobs = [Job(f"d{number}", persona, number) for number, persona in enumerate(people[:4])]
    speaking = Speaking(policy="p", thinking=False, strip_thoughts=False, max_reply_tokens=200, max_context_tokens=100_000)
    policy = TokenPolicy(FakeSampler(lambda name, turn: REPLIES[(turn + int(name[1])) % len(REPLIES)]), LetterChat(), speaking)
    rollouts = asyncio.run(run_episodes(jobs, user, policy, EmotionRules(), 4))
    of = {persona.persona_id: persona for persona in people}
    for rollout in rollouts:
        assert rollout.dialogue.error is None
        assert rollout.dialogue.turns[-1].appraisal is not None
        assert difference_of(rollout.dialogue, of, f"distilled:{appraiser}") is None


def test_a_result_carries_the_figures_of_its_appraiser_and_no_other_s(appraiser: Path, tmp_path: Path) -> None:
    from rlver.components.domain.files import BadFile
    from rlver.components.users.distilled.folder import fidelity_of

    figures = fidelity_of(appraiser)
    assert figures["held_out_dialogues"] == 20 and 0.3 < figures["teacher_forced_r"] <= 1
    shutil.copytree(appraiser, tmp_path / "other")
    card = json.loads((tmp_path / "other" / "fidelity.json").read_text())
    (tmp_path / "other" / "fidelity.json").write_text(json.dumps(card | {"appraiser": "distilled 000000000000"}))
    with pytest.raises(BadFile, match="distil it again"):
        fidelity_of(tmp_path / "other")


@pytest.mark.parametrize(
    ("command", "personas", "policies", "message"),
    [
        ("fidelity", 1, ("fair",), "too few recordings: "),
        ("distil", 2, ("fair", "good"), "too few recordings: "),
        ("distil", 9, (), "no policy model that is held out talked with a persona that is held out"),
    ],
)
def test_too_few_recordings_are_one_line_that_says_so(
    project: Path, recordings: list[Dialogue], tmp_path: Path, capsys: pytest.CaptureFixture[str],
    command: str, personas: int, policies: tuple[str, ...], message: str,
) -> None:  # fmt: skip
    met = {one.persona_id: number for number, one in enumerate(recordings[:personas])}
    kept = [one for one in recordings if one.persona_id in met and (one.policy in policies or not policies)]
    if not policies:  # one model met the first persona only, the other one all others
        kept = [one for one in kept if one.policy == ("fair" if met[one.persona_id] else "good")]
    write_jsonl(tmp_path / "few.jsonl", [one.model_dump(mode="json") for one in kept])
    assert main([command, str(tmp_path / "few.jsonl"), "-o", str(tmp_path / "out"), "--params", str(project / "params.yaml")]) == 1
    assert f"error: {message}" in capsys.readouterr().err


@pytest.mark.long
def test_cross_fitting_scores_every_dialogue_by_what_saw_neither_its_persona_nor_its_policy(
    project: Path, recordings: list[Dialogue], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rlver.tasks.studies.distil.examples import cross_folds

    folds = list(cross_folds(recordings, 4, 9))
    assert sorted(number for fold in folds for number in fold.scored) == list(range(len(recordings)))
    for fold in folds:
        learned, scored = ([recordings[number] for number in side] for side in (fold.learned, fold.scored))
        assert learned and not {one.persona_id for one in learned} & {one.persona_id for one in scored}
        assert not {one.policy for one in learned} & {one.policy for one in scored}
    monkeypatch.chdir(project)
    assert main(["fidelity", "recorded.jsonl", "-o", str(tmp_path), "--personas", "personas.jsonl"]) == 0
    figures = json.loads((tmp_path / "fidelity-cross-fitted.json").read_text())["splits"]["cross-fitted"]
    assert figures["dialogues"] == 240 and figures["free_running"]["expected"]["r"]["ci95"][0] > 0.2
