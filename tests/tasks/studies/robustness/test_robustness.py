"""The drop of a shift: paired, tested, adjusted; and a policy planted to understand only training's words shows it."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from pathlib import Path

import pytest
from report_run import load, write_run
from shifted import held_with, unseen_people

from rlver.components.domain.files import write_json
from rlver.components.domain.transcript import Dialogue
from rlver.components.personas.generator import compose_personas
from rlver.components.personas.library import load_library
from rlver.components.replay.reappraisal import final_emotions
from rlver.components.report.page import page
from rlver.components.report.panels.panel import ReportRun, Sources
from rlver.components.scoring.units import Sampling, Units
from rlver.components.settings.settings import load_settings
from rlver.components.users.scripted.simulator import ScriptedAppraiser
from rlver.components.users.shifts.users import UNSHIFTED, users
from rlver.tasks.graph.lock import md5_of
from rlver.tasks.studies.robustness import panel
from rlver.tasks.studies.robustness.robustness import rows, second_opinion, sign_flip_p
from rlver.tasks.studies.robustness.tables import policy_as_json

SAMPLES = 2000


def test_the_sign_test_counts_the_flips_that_are_as_extreme() -> None:
    """Of the 16 signs of four equal differences 2 are as extreme: p = 1/8. One positive difference says nothing: p = 1."""
    assert sign_flip_p([3.0] * 4, 20_000, 1) == pytest.approx(1 / 8, abs=0.01)
    assert sign_flip_p([5.0], SAMPLES, 1) == 1
    assert sign_flip_p([0.0, 0.0], SAMPLES, 1) == 1
    assert sign_flip_p([4.0, 5.0, 6.0] * 10, SAMPLES, 1) < 0.001


@pytest.mark.long
def test_false_alarms_are_as_rare_as_they_claim() -> None:
    """400 experiments in which a shift changes nothing: at most 5% alarms, and a little room for 400 draws."""
    draw = random.Random(2)
    alarms = sum(sign_flip_p([draw.gauss(0, 20) for _ in range(25)], 300, number) <= 0.05 for number in range(400))
    assert alarms / 400 <= 0.05 + 3 * (0.05 * 0.95 / 400) ** 0.5


def shifted_by(dialogues: list[Dialogue], points: int) -> list[Dialogue]:
    """Only final emotions count here."""
    return [one.model_copy(update={"emotion_final": max(0, min(100, (one.emotion_final or 0) + points))}) for one in dialogues]


@pytest.fixture(scope="module")
def plain() -> list[Dialogue]:
    return [
        one.model_copy(update={"emotion_final": 40 + number})
        for number, one in enumerate(held_with(users("vanilla")[UNSHIFTED], unseen_people()))
    ]


def test_a_row_is_the_paired_difference_with_its_interval_and_an_adjusted_p(plain: list[Dialogue]) -> None:
    """Eight personas, all 6 points lower: 2 of 256 signs are as extreme, p = 1/128, doubled by Holm over two.

    Wilson's upper end for 0 of 8 is z^2 / (8 + z^2) = .324: so large a share may have been missed, at 0 or at twice the difference.
    """
    measured = rows({UNSHIFTED: plain, "lower": shifted_by(plain, -6), "same": plain}, UNSHIFTED, Sampling(20_000, 1))
    unshifted, lower, same = measured
    assert [row.shift for row in measured] == [UNSHIFTED, "lower", "same"] and unshifted.change is None
    assert lower.change is not None and same.change is not None
    assert lower.change.difference.value == -6 and lower.change.difference.ci95 == pytest.approx((-6 * 1.32441, -6 * 0.67559), abs=1e-3)
    assert lower.change.p_value == pytest.approx(1 / 128, abs=0.003)
    assert lower.change.p_holm == pytest.approx(2 * lower.change.p_value)
    assert (same.change.difference.value, same.change.p_holm) == (0, 1)
    assert unshifted.score.emotion.value == 43.5 and lower.score.emotion.value == 37.5
    assert lower.change.detectable is None, "differences without spread do not tell how far others would spread"


def test_scenarios_are_resampled_and_flipped_whole(plain: list[Dialogue]) -> None:
    """Eight personas of four scenarios, all 6 points lower: 2 of 16 signs are as extreme, and eight personas stay eight."""
    stories = {one.persona_id: f"story {number // 2}" for number, one in enumerate(plain)}
    lower = rows({UNSHIFTED: plain, "lower": shifted_by(plain, -6)}, UNSHIFTED, Sampling(20_000, 1, Units(stories)))[1]
    assert lower.score.unit == "scenario" and lower.change is not None
    assert (lower.change.personas, lower.change.difference.n) == (8, 4)
    assert lower.change.p_value == pytest.approx(1 / 8, abs=0.01)


def test_only_personas_scored_both_times_are_paired_and_failures_are_counted(plain: list[Dialogue]) -> None:
    lower = shifted_by(plain, -6)
    failed = [one.model_copy(update={"emotion_final": None, "error": "x", "stop_reason": "failed"}) for one in lower[:2]]
    row = rows({UNSHIFTED: plain[1:], "lower": [*failed, *lower[2:]]}, UNSHIFTED, Sampling(SAMPLES, 1))[1]
    assert row.change is not None and (row.change.difference.n, row.change.difference.value) == (6, -6)
    assert (row.score.dialogues, row.score.unscorable) == (6, 2)
    with pytest.raises(ValueError, match="lower: no persona was scored both"):
        rows({UNSHIFTED: plain[:2], "lower": lower[2:]}, UNSHIFTED, Sampling(SAMPLES, 1))


def test_a_policy_that_knows_only_the_cues_of_training_is_shown_to(plain: list[Dialogue]) -> None:
    """It serves a need that it was told of word for word; other cues and mistyped ones cost it, other names cost it nothing."""
    _, test = compose_personas(load_library(), 7, 8, 64)
    people = [one for one in test if one.hidden_need in ("attentive_listening", "deep_empathy", "sincere_praise", "not_at_fault")]
    every = users("vanilla")
    held = {name: held_with(every[name], people) for name in (UNSHIFTED, "unseen-cues-1", "typos-2", "familiar-names-1")}
    change = {row.shift: row.change for row in rows(held, UNSHIFTED, Sampling(SAMPLES, 1)) if row.change}
    assert change["unseen-cues-1"].difference.ci95.high < -5 and change["unseen-cues-1"].p_holm < 0.01
    assert change["typos-2"].difference.ci95.high < 0
    assert abs(change["familiar-names-1"].difference.value) < 1 and change["familiar-names-1"].p_holm > 0.05


def test_a_second_opinion_compares_the_same_dialogues(plain: list[Dialogue]) -> None:
    """A policy whose every dialogue the second puts 10 points lower is in the same order; the policies change places."""
    other = shifted_by(plain, 3)
    second = {
        "a": {one.dialogue_id: (one.emotion_final or 0) - 10 for one in plain},
        "b": {one.dialogue_id: (one.emotion_final or 0) - 30 for one in other},
    }
    opinion = second_opinion(("x", "y"), {"a": plain, "b": other}, second, Sampling(SAMPLES, 1))
    assert opinion.means == {"a": (43.5, 33.5), "b": (46.5, 16.5)}
    assert all(one is not None and one.value == pytest.approx(1) and one.n == 8 for one in opinion.dialogues.values())
    assert opinion.policies_tau is not None and opinion.policies_tau.value == -1
    alone = second_opinion(("x", "y"), {"a": plain}, second, Sampling(SAMPLES, 1))
    assert alone.policies_rho is None and alone.policies_tau is None
    with pytest.raises(ValueError, match="y: it has none of the dialogues with a"):
        second_opinion(("x", "y"), {"a": plain}, {"a": {"stranger": 3}}, Sampling(SAMPLES, 1))


def test_an_appraiser_of_the_same_rules_agrees_with_the_transcript() -> None:
    held = held_with(users("vanilla")["typos-2"], unseen_people())
    personas = {persona.persona_id: persona for persona in unseen_people()}
    recorded = {one.dialogue_id: one.emotion_final for one in held}
    assert asyncio.run(final_emotions(ScriptedAppraiser("vanilla"), held, personas)) == recorded
    assert asyncio.run(final_emotions(ScriptedAppraiser("challenging"), held, personas)) != recorded
    with pytest.raises(ValueError, match="unknown difficulty 'brutal'"):
        ScriptedAppraiser("brutal")


def test_figures_of_another_model_are_not_shown_and_other_users_are_named(tmp_path: Path) -> None:
    """Of two policies one was trained again since; the report's own users are scripted-1."""
    write_run(tmp_path, personas=4)
    row = {
        "about": "as they are", "dialogues": 4, "emotion_ci95": [18.0, 32.0], "emotion_mean": 25.0, "paired_to_unshifted": None,
        "shift": "unshifted", "unscorable": 1, "user": "scripted/vanilla/scripted-2",
    }  # fmt: skip
    agreement = {"emotion_mean_first": 25.0, "emotion_mean_second": 24.0, "spearman_over_dialogues": None}
    policies, opinions = [], []
    for name, is_newer in (("base", False), ("grpo-think", True)):
        model = tmp_path / "models" / name
        model.mkdir(parents=True)
        (model / "config.json").write_text("{}")
        policies.append({**policy_as_json(name, md5_of(model), (), {}, {}), "shifts": [row]})
        opinions.append({"policy": name, **agreement})
        if is_newer:
            (model / "config.json").write_text('{"trained": "again"}')
    found = {"difficulty": "vanilla", "personas": 4, "policies": policies}
    write_json(tmp_path / "robustness.json", {**found, "second_opinions": [{"first": "a", "second": "b", "policies": opinions}]})
    settings = load_settings(Path(__file__).parents[4] / "params.yaml")
    sources = Sources(settings, (), tmp_path / "logs", files={"robustness": tmp_path / "robustness.json"})
    gathered = panel.gather(load(tmp_path), sources)
    run = ReportRun(seed=7, margin=0.05, model=None)
    base, newer, second = panel.tables(gathered, run)
    assert [[cell.value for cell in cells][1] for cells in base.rows] == [25.0] and len(second.rows) == 1
    assert newer.rows == () and "Figures of another model" in newer.note
    shown = page(gathered, run, {}, [panel.PANEL])
    assert "Figures of another model: run rlver robustness again." in shown and "18.0 to 32.0; 1 unscorable" in shown
    assert "played by scripted/vanilla/scripted-2" in shown and "are of other users: scripted/vanilla/scripted-1" in shown
    alike = replace(gathered, variants=tuple(replace(one, dialogues=()) for one in gathered.variants))
    assert (panel.values(alike, run) or {})["other_users"] == ""
