"""Whatever a distilled appraiser decided says so: MLflow and the report carry its figures, with their intervals."""

from __future__ import annotations

import asyncio
import csv
import json
from pathlib import Path
from typing import Any

import pytest
from fakes import REPLIES, FakeSampler, LetterChat
from llm_project import change

from rlver.components.domain.emotion import EmotionRules
from rlver.components.domain.files import BadFile, write_jsonl
from rlver.components.domain.persona import Persona
from rlver.components.domain.transcript import Dialogue
from rlver.components.policy.token_policy import Speaking, TokenPolicy
from rlver.components.rollout.episode import Job, run_episodes
from rlver.components.settings.settings import load_settings
from rlver.components.users.distilled.folder import fidelity_of
from rlver.tasks.commands.reports import report
from rlver.tasks.graph.dvc import LockedStage
from rlver.tasks.runtime.assembly import simulator
from rlver.tasks.tracking import records
from rlver.tasks.tracking.recorder import MlflowRecorder, log_pipeline


@pytest.fixture(scope="module")
def felt(project: Path, appraiser: Path, people: list[Persona]) -> list[Dialogue]:
    """Dialogues of a scripted speaker who feels as the appraiser says."""
    settings = load_settings(project / "params.yaml")
    user = simulator(
        settings.model_copy(update={"simulator": settings.simulator.model_copy(update={"appraiser": f"distilled:{appraiser}"})})
    )
    speaking = Speaking(policy="base", thinking=False, strip_thoughts=False, max_reply_tokens=200, max_context_tokens=100_000)
    policy = TokenPolicy(FakeSampler(lambda name, turn: REPLIES[(turn + int(name[1])) % len(REPLIES)]), LetterChat(), speaking)
    jobs = [Job(f"d{number}", persona, number) for number, persona in enumerate(people[:4])]
    return [rollout.dialogue for rollout in asyncio.run(run_episodes(jobs, user, policy, EmotionRules(), 4))]


@pytest.fixture
def run(tmp_path: Path, project: Path, appraiser: Path, people: list[Persona], felt: list[Dialogue]) -> Path:
    """Transcripts, personas and parameters; the appraiser is `models/appraiser`."""
    (tmp_path / "params.yaml").write_bytes((project / "params.yaml").read_bytes())
    change(tmp_path / "params.yaml", simulator={"appraiser": f"distilled:{tmp_path / 'models' / 'appraiser'}"})
    (tmp_path / "params").mkdir()
    (tmp_path / "params" / "base.yaml").write_text("policy: {thinking: false}\n")
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "appraiser").symlink_to(appraiser)
    write_jsonl(tmp_path / "transcripts" / "base.jsonl", [dialogue.model_dump(mode="json") for dialogue in felt])
    write_jsonl(tmp_path / "personas.jsonl", [persona.model_dump(mode="json") for persona in people])
    return tmp_path


def full_card(appraiser: Path) -> dict[str, Any]:
    card = json.loads((appraiser / "fidelity.json").read_text())
    ((_, figures),) = card["splits"].items()
    return figures


def test_the_short_card_has_the_figures_of_the_whole(appraiser: Path) -> None:
    carried, full = fidelity_of(appraiser), full_card(appraiser)
    assert carried["free_running_dialogue_r"] == full["free_running"]["dialogue_mean_r"]["value"]
    assert carried["free_running_dialogue_r_ci95"] == full["free_running"]["dialogue_mean_r"]["ci95"]
    assert carried["teacher_forced_sign_accuracy"] == full["teacher_forced"]["change"]["sign_accuracy"]["value"]
    assert carried["held_out_dialogues"] == 20 and carried["learned_from"]["policies"] == ["fair", "good", "poor"]


@pytest.mark.long
def test_mlflow_holds_the_figures_and_the_card_of_every_stage_that_used_it(run: Path, tracking_uri: str) -> None:
    from mlflow import MlflowClient

    named = {"simulator": {"appraiser": "distilled:models/appraiser"}}
    talks = {"transcripts/base.jsonl": "d" * 32}
    stages = {
        "converse@base": LockedStage("converse@base", {"params.yaml": named}, {}, talks),
        "train@base": LockedStage("train@base", {"params.yaml": named}, talks, {}),
        "scripted": LockedStage("scripted", {"params.yaml": {"simulator": {"appraiser": None}}}, {}, talks),
    }
    with MlflowRecorder(run, tracking_uri, "reference", {}, traces=0) as recorder:
        runs = log_pipeline(recorder, [records.read(run, name, stages) for name in stages])
    client, card = MlflowClient(tracking_uri=tracking_uri), fidelity_of(run / "models" / "appraiser")
    for name in ("converse@base", "train@base"):
        logged = client.get_run(runs[name]).data
        assert logged.params["simulator.appraiser"] == "distilled:models/appraiser"
        assert logged.metrics["appraiser/free_running_final_r"] == card["free_running_final_r"]
        assert logged.metrics["appraiser/free_running_final_r_ci95/lo"] == card["free_running_final_r_ci95"][0]
        assert [file.path for file in client.list_artifacts(runs[name], "appraiser")] == [
            "appraiser/fidelity.json",
            "appraiser/fidelity.md",
        ]
    assert not any(name.startswith("appraiser/") for name in client.get_run(runs["scripted"]).data.metrics)


def report_of(run: Path) -> str:
    """The page of `rlver report`."""
    report([run / "transcripts"], run / "report", params=run / "params.yaml")
    return (run / "report" / "index.html").read_text(encoding="utf-8")


@pytest.mark.long
def test_the_report_says_what_the_appraiser_is_worth(run: Path, appraiser: Path) -> None:
    card, text = fidelity_of(appraiser), report_of(run)
    assert f"Appraiser {card['digest']} was learned from 240 dialogues" in text and f"{card['free_running_final_r']:.3f}" in text
    (row,) = csv.DictReader((run / "report" / "tables" / "appraiser.csv").open())
    assert row["policy"] == "base" and row["appraiser"] == f"distilled {card['digest']}"
    assert [float(row[f"free_running_final_r_ci95_{end}"]) for end in ("low", "high")] == card["free_running_final_r_ci95"]


@pytest.mark.long
def test_a_report_on_dialogues_that_another_appraiser_felt_has_no_figures(run: Path, felt: list[Dialogue]) -> None:
    rewrite(run, felt, version=f"appraiser={'0' * 12} scripted-3")
    text = report_of(run)
    assert "base was appraised by a distilled appraiser that simulator.appraiser does not name now" in text
    assert not (run / "report" / "tables" / "appraiser.csv").exists()


def rewrite(run: Path, felt: list[Dialogue], **tag: str) -> None:
    other = felt[0].simulator.model_copy(update=tag)
    rows = [one.model_copy(update={"simulator": other}).model_dump(mode="json") for one in felt]
    write_jsonl(run / "transcripts" / "base.jsonl", rows)


@pytest.mark.long
def test_a_report_on_other_users_has_no_such_part(run: Path, felt: list[Dialogue]) -> None:
    rewrite(run, felt, kind="scripted", version="scripted-3")
    assert 'id="appraiser"' not in report_of(run)


def test_a_card_of_another_appraiser_is_not_carried(appraiser: Path, tmp_path: Path) -> None:
    for file in appraiser.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    card = json.loads((tmp_path / "fidelity.json").read_text())
    (tmp_path / "fidelity.json").write_text(json.dumps(card | {"appraiser": "distilled 000000000000"}))
    with pytest.raises(BadFile, match="distil it again"):
        fidelity_of(tmp_path)
