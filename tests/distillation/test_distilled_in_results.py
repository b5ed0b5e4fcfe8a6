"""Whatever a distilled appraiser decided says so: the score, MLflow and the report carry its figures, with their intervals."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from distillation_settings import change
from fakes import REPLIES, FakeSampler, LetterChat

from components.dialogue.episode import Job
from components.dialogue.rollouts import hold_dialogues
from components.dialogue.transcript import Dialogue
from components.evaluation.appraiser_card import appraiser_card
from components.evaluation.report.loading import Material, load_material
from components.evaluation.report.panels import appraiser as panel
from components.evaluation.report.panels.panel import Run
from components.evaluation.report.render import page
from components.files import BadFile, write_jsonl
from components.personas.persona import Persona
from components.policy.token_policy import Speaking, TokenPolicy
from components.settings import load_settings
from components.simulator.emotion import EmotionRules
from tasks import records
from tasks.dvc import LockedStage
from tasks.stages import run_stage, score
from tasks.stages.assembly import simulator
from tasks.tracking import MlflowRecorder, log_pipeline

RUN = Run(seed=7, margin=0.05, model=None)


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
    return [rollout.dialogue for rollout in asyncio.run(hold_dialogues(jobs, user, policy, EmotionRules(), 4))]


@pytest.fixture
def run(tmp_path: Path, project: Path, appraiser: Path, people: list[Persona], felt: list[Dialogue]) -> Path:
    """Everything that the stage score reads; its appraiser is `models/appraiser`."""
    (tmp_path / "params.yaml").write_bytes((project / "params.yaml").read_bytes())
    change(tmp_path / "params.yaml", simulator={"appraiser": f"distilled:{tmp_path / 'models' / 'appraiser'}"})
    (tmp_path / "params").mkdir()
    (tmp_path / "params" / "base.yaml").write_text("policy: {thinking: false}\n")
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "appraiser").symlink_to(appraiser)
    write_jsonl(tmp_path / "transcripts" / "base.jsonl", [dialogue.model_dump(mode="json") for dialogue in felt])
    write_jsonl(tmp_path / "personas.jsonl", [persona.model_dump(mode="json") for persona in people])
    return tmp_path


def scored(run: Path) -> int:
    talks = str(run / "transcripts" / "base.jsonl")
    files = ["--personas", str(run / "personas.jsonl"), "--out", str(run / "metrics" / "base" / "sentient.json")]
    return run_stage(
        lambda: score.main(["--variant", "base", "--transcripts", talks, "--base", talks, *files, "--params", str(run / "params.yaml")])
    )


def loaded(run: Path) -> Material:
    return load_material(run / "transcripts", run / "metrics", run / "logs")


def full_card(appraiser: Path) -> dict[str, Any]:
    card = json.loads((appraiser / "fidelity.json").read_text())
    ((_, figures),) = card["splits"].items()
    return figures


def test_the_score_carries_the_figures_that_the_card_has(run: Path, appraiser: Path) -> None:
    assert scored(run) == 0
    carried, full = json.loads((run / "metrics" / "base" / "sentient.json").read_text())["appraiser"], full_card(appraiser)
    assert carried["free_running_dialogue_r"] == full["free_running"]["dialogue_mean_r"]["value"]
    assert carried["free_running_dialogue_r_ci95"] == full["free_running"]["dialogue_mean_r"]["ci95"]
    assert carried["teacher_forced_sign_accuracy"] == full["teacher_forced"]["change"]["sign_accuracy"]["value"]
    assert carried["held_out_dialogues"] == 20 and carried["learned_from"]["policies"] == ["fair", "good", "poor"]


def test_a_score_of_dialogues_that_another_appraiser_felt_is_refused(
    run: Path, felt: list[Dialogue], capsys: pytest.CaptureFixture[str]
) -> None:
    other = felt[0].simulator.model_copy(update={"version": f"appraiser={'0' * 12} scripted-3"})
    write_jsonl(run / "transcripts" / "base.jsonl", [one.model_copy(update={"simulator": other}).model_dump(mode="json") for one in felt])
    assert scored(run) == 1
    assert "was appraised by distilled+scripted appraiser=000000000000" in capsys.readouterr().err


def test_mlflow_holds_the_figures_and_the_card_of_every_stage_that_used_it(run: Path, tracking_uri: str) -> None:
    from mlflow import MlflowClient

    assert scored(run) == 0
    named = {"simulator": {"appraiser": "distilled:models/appraiser"}}
    talks, scores = {"transcripts/base.jsonl": "d" * 32}, {"metrics/base/sentient.json": "e" * 32}
    stages = {
        "converse@base": LockedStage("converse@base", {"params.yaml": named}, {}, talks),
        "score@base": LockedStage("score@base", {"params.yaml": named}, talks, scores),
        "scripted": LockedStage("scripted", {"params.yaml": {"simulator": {"appraiser": None}}}, {}, talks),
    }
    with MlflowRecorder(run, tracking_uri, "reference", {}, traces=0) as recorder:
        runs = log_pipeline(recorder, [records.read(run, name, stages) for name in stages])
    client, card = MlflowClient(tracking_uri=tracking_uri), appraiser_card(run / "models" / "appraiser")
    for name in ("converse@base", "score@base"):
        logged = client.get_run(runs[name]).data
        assert logged.params["simulator.appraiser"] == "distilled:models/appraiser"
        assert logged.metrics["appraiser/free_running_final_r"] == card["free_running_final_r"]
        assert logged.metrics["appraiser/free_running_final_r_ci95/lo"] == card["free_running_final_r_ci95"][0]
        assert [file.path for file in client.list_artifacts(runs[name], "appraiser")] == [
            "appraiser/fidelity.json",
            "appraiser/fidelity.md",
        ]
    assert not any(name.startswith("appraiser/") for name in client.get_run(runs["scripted"]).data.metrics)


@pytest.fixture
def shown(run: Path) -> Callable[[], str]:
    return lambda: page(loaded(run), RUN, {})


def test_the_report_says_what_the_appraiser_is_worth(run: Path, appraiser: Path, shown: Callable[[], str]) -> None:
    assert scored(run) == 0
    card = appraiser_card(appraiser)
    (table,) = panel.tables(loaded(run), RUN)
    cells = {column.key: cell for column, cell in zip(table.columns, table.rows[0], strict=True)}
    assert cells["policy"].value == "base" and cells["appraiser"].value == f"distilled {card['digest']}"
    assert cells["free_running_final_r"].ends == tuple(card["free_running_final_r_ci95"])
    text = shown()
    assert f"Appraiser {card['digest']} was learned from 240 dialogues" in text and f"{card['free_running_final_r']:.3f}" in text


def test_a_report_without_the_figures_says_where_they_are(run: Path, shown: Callable[[], str]) -> None:
    assert "base was appraised by a distilled appraiser whose figures are not here" in shown()


def test_a_report_on_other_users_has_no_such_part(run: Path, felt: list[Dialogue], shown: Callable[[], str]) -> None:
    other = felt[0].simulator.model_copy(update={"kind": "scripted", "version": "scripted-3"})
    write_jsonl(run / "transcripts" / "base.jsonl", [one.model_copy(update={"simulator": other}).model_dump(mode="json") for one in felt])
    assert 'id="appraiser"' not in shown()


def test_a_card_of_another_appraiser_is_not_carried(appraiser: Path, tmp_path: Path) -> None:
    for file in appraiser.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    card = json.loads((tmp_path / "fidelity.json").read_text())
    (tmp_path / "fidelity.json").write_text(json.dumps(card | {"appraiser": "distilled 000000000000"}))
    with pytest.raises(BadFile, match="distil it again"):
        appraiser_card(tmp_path)
