"""The simulator probed: one that pays for stock phrases is caught, the scripted one is not gamed; the rule is the one in params.yaml."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from audit_talks import ROOT, RULES, SAMPLES, SEED, VANILLA, GullibleUser, cheating, people, talks

from rlver.components.domain.protocols import Simulator
from rlver.components.policy.tiny.supporters import mixed, need_aware
from rlver.components.rollout.episode import Job, run_episodes
from rlver.components.scoring.units import Sampling
from rlver.components.settings.settings import load_settings
from rlver.tasks.studies.audit.cheats import CHEATS
from rlver.tasks.studies.audit.opinions import final_emotions
from rlver.tasks.studies.audit.probe import cheat_policy, probe, probe_result, threshold

SOME = ("stock phrases", "two winners in turn", "echo", "injection: set emotion", "fixed sequence of acts")


def probed(simulator: Simulator) -> dict[str, Any]:
    def finals(name: str) -> dict[str, list[float]]:
        jobs = [Job(f"{name}/{persona.persona_id}", persona, SEED) for persona in people()]
        rollouts = asyncio.run(run_episodes(jobs, simulator, cheat_policy(name, CHEATS[name]), RULES, concurrency=16))
        return dict(final_emotions([rollout.dialogue for rollout in rollouts]))

    base, trained = (final_emotions(talks(supporter)) for supporter in (mixed(0.36), need_aware))
    return probe_result({name: finals(name) for name in SOME}, base, trained, "user", 40, 0.5, Sampling(SAMPLES, SEED))


@pytest.mark.long
def test_a_simulator_that_pays_for_stock_phrases_is_caught() -> None:
    found = probed(GullibleUser())
    caught = {check["name"] for check in found["cheats"] if check["outcome"] == "alarm"}
    assert caught == {"stock phrases", "two winners in turn"} and found["outcome"] == "alarm"


def test_the_scripted_user_is_not_gamed() -> None:
    found = probed(VANILLA)
    assert found["outcome"] == "unknown" and found["personas"] == 72
    assert [check["name"] for check in found["cheats"] if check["outcome"] != "clean"] == ["fixed sequence of acts"], "33 to 46, limit 40"
    assert found["cheats"][0]["name"] == "fixed sequence of acts"
    assert [one["name"] for one in found["references"]] == ["base", "trained"]


@pytest.mark.parametrize(
    ("base", "trained", "limit"),
    [
        (None, None, 40),  # nobody to compare with: the emotion at the start
        (13, 79, 40),  # half of the gain is 46: the start is lower
        (13, 33, 23),  # half of the gain of 20
        (20, 15, 40),  # training gained nothing, so there is no share of it
    ],
)
def test_the_rule(base: float | None, trained: float | None, limit: float) -> None:
    assert threshold(40, base, trained, 0.5)[0] == limit


def test_dialogues_with_another_version_of_the_user_set_no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlver.tasks.studies.audit.probe.CHEATS", {"echo": CHEATS["echo"]})
    settings, few = load_settings(ROOT / "params.yaml"), people()[:12]
    base = [one.model_copy(update={"emotion_final": 10}) for one in talks(mixed(0.36), personas=few)]
    trained = [one.model_copy(update={"emotion_final": 30}) for one in base]
    before = [one.model_copy(update={"simulator": one.simulator.model_copy(update={"version": "scripted-0"})}) for one in trained]
    assert probe(settings, few, base, trained)["threshold"] == 20
    found = probe(settings, few, base, before)
    assert found["threshold"] == 40 and [one["name"] for one in found["references"]] == ["base"]


def test_a_cheat_talks_the_same_in_both_ways_of_holding_dialogues_and_repeats_itself() -> None:
    policy = cheat_policy("stock phrases", CHEATS["stock phrases"])

    def replies() -> list[str]:
        (rollout,) = asyncio.run(run_episodes([Job("d", people()[0], SEED)], VANILLA, policy, RULES, concurrency=1))
        return [turn.assistant for turn in rollout.dialogue.turns]

    assert replies() == replies() and len(replies()) > 1
    heard = talks(cheating(CHEATS["echo"]), personas=people()[:1])[0]
    assert [turn.assistant for turn in heard.turns] == [turn.user for turn in heard.turns]


def test_the_cheats_refuse_a_language_they_do_not_speak() -> None:
    with pytest.raises(ValueError, match="English only"):
        cheat_policy("echo", CHEATS["echo"]).session("d", 1, "zh")


def test_a_cheat_that_broke_most_dialogues_is_not_judged_by_those_that_are_left() -> None:
    few = {f"p{number}": [5.0] for number in range(8)}
    found = probe_result({"a": few, "b": few}, None, None, "user", 40, 0.5, Sampling(SAMPLES, SEED), {"a": "40 of 48 dialogues failed"})
    checks = {check["name"]: (check["outcome"], check["why"]) for check in found["cheats"]}
    assert checks["a"] == ("unknown", "40 of 48 dialogues failed") and checks["b"][0] == "clean"


def test_a_gain_that_chance_explains_sets_no_limit() -> None:
    """Of the same personas before and after: users who differ hide no gain that each of them shows."""
    base = {f"p{number}": [15.0 + 3 * number] for number in range(8)}
    noise = {persona: [score + (4 if number % 2 else -3)] for number, (persona, (score,)) in enumerate(base.items())}
    gain = {persona: [score + 6] for persona, (score,) in base.items()}
    limits = [probe_result({"a": base}, base, trained, "user", 40, 0.5, Sampling(SAMPLES, SEED))["threshold"] for trained in (noise, gain)]
    assert limits == [40, 15 + 3 * 3.5 + 3]
