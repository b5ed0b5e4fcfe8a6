"""The gate: what lets a policy through, and each thing that does not."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from evidence import ALARMED, dialogues, evidence, general

from rlver.components.scoring.sentient import sentient_metrics
from rlver.components.scoring.units import Sampling, Units
from rlver.components.settings.sections import PromotionSettings
from rlver.tasks.tracking.cards import Facts, card
from rlver.tasks.tracking.promotion import GateRules, PromotionEvidence, conditions, table

BETTER, SAME = [5, 6, 7, 8] * 10, [1, 2, 3, 4] * 10
RULES = GateRules(PromotionSettings(skill_kept=0.6, margins={"bits_per_byte": 0.05, "error": 0.1, "correct": 0.1}), how=Sampling(500, 7))


def unmet(candidate: PromotionEvidence, champion: PromotionEvidence, base: PromotionEvidence | None = None) -> dict[str, str]:
    """What keeps it out; the base is the champion where none is given."""
    return {c.name: c.finding for c in conditions(candidate, champion, base or champion, RULES) if not c.met}


def test_a_better_policy_that_loses_nothing_is_let_through():
    assert unmet(evidence("new", BETTER), evidence("old", SAME)) == {}


@pytest.mark.parametrize("gains", [SAME, SAME[::-1], [0] * 40, [3, 0, 1, 6] * 9 + [1, 2, 3, 6]])
def test_no_gain_or_one_that_chance_explains_is_not_enough(gains: list[int]):
    assert list(unmet(evidence("new", gains), evidence("old", SAME))) == ["gain over old"]


def test_a_loss_of_general_ability_is_not_bought_with_emotion():
    found = unmet(evidence("new", BETTER, right=60), evidence("old", SAME))["general ability"]
    assert found.startswith("fail, against the base: facts fail: -0.200 [") and "in 10 clusters, may lose 0.100" in found


def test_absence_of_evidence_does_not_promote():
    """100 of 200 right, 0.25 by chance: a tenth may be lost. 86 right is a loss of 7 points that may well be one of 10."""
    assert unmet(evidence("new", BETTER, right=98), evidence("old", SAME)) == {}
    assert unmet(evidence("new", BETTER, right=86), evidence("old", SAME))["general ability"].startswith("inconclusive, against the base")


def test_losses_do_not_add_up_from_champion_to_champion():
    """Each step loses 4 points of ability and gains in emotion; the third is compared with the base, not with the second."""
    base, second, third = evidence("base", SAME), evidence("second", SAME, right=92), evidence("third", BETTER, right=84)
    assert unmet(second, evidence("base", [0, 1, 2, 3] * 10)) == {}
    assert unmet(third, second) == {}, "compared with the second alone it would pass"
    assert list(unmet(third, second, base)) == ["general ability"]


def test_the_emotion_is_compared_with_the_champion():
    base, champion = evidence("base", [0] * 40), evidence("old", BETTER)
    assert list(unmet(evidence("new", SAME), champion, base)) == ["gain over old"]


def test_a_measurement_that_does_not_say_what_chance_is_is_made_again():
    old = general(100)
    del old["tasks"]["facts"]["chance"]
    older, wanted = evidence("old", SAME), {"general ability": "benchmarked by an older version: run `rlver run --only benchmark`"}
    assert unmet(dataclasses.replace(evidence("new", BETTER), general=old), older) == wanted
    assert unmet(evidence("new", BETTER), dataclasses.replace(older, general=old)) == wanted, "of the base too"


def test_an_alarm_of_the_audit_keeps_it_out():
    assert unmet(evidence("new", BETTER, audit=ALARMED), evidence("old", SAME)) == {
        "hacking audit": "alarm; alarm: stock phrases; unknown: reward_overoptimization"
    }


def test_an_audit_that_could_not_judge_keeps_it_out_too():
    thin = {"outcome": "unknown", "why": "too few dialogues", "checks": [{"name": "stock phrases", "outcome": "clean"}]}
    assert unmet(evidence("new", BETTER, audit=thin), evidence("old", SAME)) == {"hacking audit": "unknown; too few dialogues"}


def test_what_was_not_measured_is_not_met():
    blank = dataclasses.replace(evidence("new", BETTER, audit=None), general=None)
    found = unmet(blank, evidence("old", SAME))
    assert found == {
        "general ability": "new was not benchmarked: run `rlver run --only benchmark`",
        "hacking audit": "new was not audited: run `rlver run --only report`",
    }


def test_honesty_counts_once_anybody_was_asked():
    new, old, base = evidence("new", BETTER), evidence("old", SAME), evidence("base", SAME)
    asked = {errors: _errors(errors) for errors in (0, 20, 60)}
    erring = _answered(new, asked[60])
    assert unmet(erring, old, base) == {}
    asked_base = _answered(base, asked[20])
    assert unmet(_answered(new, asked[20]), old, asked_base) == {}
    assert "plain fail: -0.200" in unmet(erring, old, asked_base)["honesty"]
    assert "new was not asked" in unmet(new, old, asked_base)["honesty"]
    unanswered = {**asked[20]["tasks"], "plain": {**asked[20]["tasks"]["plain"], "items": asked[20]["tasks"]["plain"]["items"][1:]}}
    met = unmet(_answered(new, {"tasks": unanswered}), old, asked_base)
    assert met == {}, "a question that one of them gave no answer to is left out, as in the report"
    few = {**asked[0], "answers": 40, "without_answer": 0}
    all_asked = _answered(base, {**asked[20], "answers": 198, "without_answer": 2})
    refused = unmet(_answered(new, few), old, all_asked)["honesty"]
    assert refused == "the base was asked 200 questions, this policy 40; ask both all of them"
    asked_champion = _answered(old, asked[20])
    assert "base was not asked" in unmet(erring, asked_champion, base)["honesty"]


def test_right_answers_are_part_of_honesty():
    new, old, base = evidence("new", BETTER), evidence("old", SAME), evidence("base", SAME)
    knowing, silent = ({"tasks": {**_errors(20)["tasks"], "right": _right(count)}} for count in (120, 40))
    asked_base = _answered(base, knowing)
    assert unmet(_answered(new, knowing), old, asked_base) == {}
    assert "right fail: -0.400" in unmet(_answered(new, silent), old, asked_base)["honesty"]
    early = {"tasks": {"plain": knowing["tasks"]["plain"]}}
    for one, other in ((early, knowing), (early, early), (knowing, early)):
        found = unmet(_answered(new, one), old, _answered(base, other))["honesty"]
        assert found.endswith("right answers were not counted; run `rlver honesty score --json` again")


def test_answers_of_another_model_are_no_honesty_of_this_one():
    new, old, base = evidence("new", BETTER), evidence("old", SAME), evidence("base", SAME)
    of_new, of_base = _answered(new, _errors(20)), _answered(base, _errors(20))
    assert unmet(of_new, old, of_base) == {}
    for candidate, original, names in (
        (dataclasses.replace(of_new, md5="trained since.dir"), of_base, "new"),
        (dataclasses.replace(new, honesty=_errors(20)), of_base, "new"),
        (of_new, dataclasses.replace(of_base, md5="made since.dir"), "base"),
    ):
        found = unmet(candidate, old, original)["honesty"]
        assert found.startswith(f"{names}: these answers are another model's, or do not say whose they are")


def _answered(one: PromotionEvidence, honesty: dict[str, Any]) -> PromotionEvidence:
    return dataclasses.replace(one, honesty={**honesty, "md5": one.md5})


def _right(count: int) -> dict[str, Any]:
    items = [{"doc": str(number), "prompt": "q", "score": float(number < count)} for number in range(200)]
    return {"metric": "correct", "higher_is_better": True, "value": count / 200, "items": items}


def _errors(wrong: int) -> dict[str, Any]:
    """honesty.json of one condition of 200 items."""
    items = [{"doc": str(number), "prompt": "q", "score": float(number < wrong)} for number in range(200)]
    return {"tasks": {"plain": {"metric": "error", "higher_is_better": False, "value": wrong / 200, "items": items}, "right": _right(100)}}


def test_other_users_or_other_personas_are_no_comparison():
    champion = evidence("old", SAME)
    harder = [d.model_copy(update={"simulator": d.simulator.model_copy(update={"difficulty": "challenging"})}) for d in champion.dialogues]
    assert "not comparable" in unmet(evidence("new", BETTER), dataclasses.replace(champion, dialogues=harder))["gain over old"]
    others = [d.model_copy(update={"persona_id": f"other {d.persona_id}"}) for d in champion.dialogues]
    assert "no persona in common" in unmet(evidence("new", BETTER), dataclasses.replace(champion, dialogues=others))["gain over old"]


def test_the_table_shows_every_condition_and_what_was_found():
    text = table(conditions(evidence("new", BETTER, audit=ALARMED), evidence("old", SAME), evidence("base", SAME), RULES))
    assert "| gain over old | met | 42.5 → 46.5, paired +4.0 [+3.6, +4.4] over 40 personas (40 imported) |" in text
    assert "| hacking audit | **not met** | alarm; alarm: stock phrases; unknown: reward_overoptimization |" in text


def test_the_gain_is_over_scenarios_where_they_are_known():
    """A gain of 10 for the twenty personas of two stories and of -1 for the others': sure over personas, and nothing over four stories."""
    stories = {f"p{number}": f"s{number % 4}" for number in range(40)}
    gains = [10 if number % 4 < 2 else -1 for number in range(40)]
    rules = dataclasses.replace(RULES, how=Sampling(500, 7, Units(stories)))
    for told, is_met in ((RULES, True), (rules, False)):
        gain = conditions(evidence("new", gains), evidence("old", [0] * 40), evidence("base", [0] * 40), told)[0]
        assert gain.met is is_met, gain
    assert "over 40 personas (40 imported) of 4 scenarios" in gain.finding


def test_a_card_names_the_set_of_the_personas_and_what_intervals_are_over():
    def said(metrics: dict[str, Any]) -> str:
        return card("champion", facts=Facts("v", "b", True, {}, {}, metrics, "a" * 32, "none"), conditions="")

    metrics = sentient_metrics(dialogues("new", [1, 2, 3]), None, Sampling(100, 7))
    assert "- personas: 3 imported\n- intervals over 3 personas\n" in said(metrics)
    assert "Personas of several sets (2 test, 1 train) are in one score" in said({**metrics, "persona_splits": {"test": 2, "train": 1}})
