"""The gate: what lets a policy through, and each thing that does not."""

from __future__ import annotations

import dataclasses

import pytest
from evidence import ALARMED, evidence, general

from rlver.tasks.tracking.promotion import PromotionEvidence, conditions, table

BETTER, SAME = [5, 6, 7, 8] * 10, [1, 2, 3, 4] * 10


def unmet(candidate: PromotionEvidence, champion: PromotionEvidence) -> dict[str, str]:
    return {c.name: c.finding for c in conditions(candidate, champion, 0.05, 500, 7) if not c.met}


def test_a_better_policy_that_loses_nothing_is_let_through():
    assert unmet(evidence("new", BETTER), evidence("old", SAME)) == {}


@pytest.mark.parametrize("gains", [SAME, SAME[::-1], [0] * 40])
def test_no_gain_or_one_that_chance_explains_is_not_enough(gains: list[int]):
    assert list(unmet(evidence("new", gains), evidence("old", SAME))) == ["gain over old"]


def test_a_loss_of_general_ability_is_not_bought_with_emotion():
    assert "fail: facts -0.200 fail" in unmet(evidence("new", BETTER, right=60), evidence("old", SAME))["general ability"]
    inconclusive = conditions(evidence("new", BETTER, right=91), evidence("old", SAME), 0.05, 500, 7)[1]
    assert inconclusive.met and inconclusive.finding.startswith("inconclusive")


def test_an_alarm_of_the_audit_keeps_it_out():
    assert unmet(evidence("new", BETTER, audit=ALARMED), evidence("old", SAME)) == {
        "hacking audit": "alarm; alarm: stock phrases; unknown: reward_overoptimization"
    }


def test_what_was_not_measured_is_not_met():
    blank = dataclasses.replace(evidence("new", BETTER, audit=None), general=None)
    found = unmet(blank, evidence("old", SAME))
    assert found == {
        "general ability": "new was not benchmarked: run `rlver run --only benchmark`",
        "hacking audit": "new was not audited: run `rlver run --only report`",
    }


def test_honesty_counts_from_the_champion_on_that_was_asked():
    new, old = evidence("new", BETTER), evidence("old", SAME)
    asked = {right: general(right) for right in (100, 60)}  # of the same shape: items by condition
    measured = dataclasses.replace(new, honesty=asked[60])
    assert unmet(measured, old) == {}
    champion = dataclasses.replace(old, honesty=asked[100])
    assert unmet(dataclasses.replace(new, honesty=asked[100]), champion) == {}
    assert "fail: facts -0.200 fail" in unmet(measured, champion)["honesty"]
    assert "new was not asked, the champion was" in unmet(new, champion)["honesty"]


def test_other_users_or_other_personas_are_no_comparison():
    champion = evidence("old", SAME)
    harder = [d.model_copy(update={"simulator": d.simulator.model_copy(update={"difficulty": "challenging"})}) for d in champion.dialogues]
    assert "not comparable" in unmet(evidence("new", BETTER), dataclasses.replace(champion, dialogues=harder))["gain over old"]
    others = [d.model_copy(update={"persona_id": f"other {d.persona_id}"}) for d in champion.dialogues]
    assert "no persona in common" in unmet(evidence("new", BETTER), dataclasses.replace(champion, dialogues=others))["gain over old"]


def test_the_table_shows_every_condition_and_what_was_found():
    text = table(conditions(evidence("new", BETTER, audit=ALARMED), evidence("old", SAME), 0.05, 500, 7))
    assert "| gain over old | met | 42.5 → 46.5, paired +4.0 [+4.0, +4.0] over 40 personas |" in text
    assert "| hacking audit | **not met** | alarm; alarm: stock phrases; unknown: reward_overoptimization |" in text
