"""What must be kept: margins by task, intervals over relations, and nothing passed for want of evidence."""

from __future__ import annotations

from typing import Any

import pytest

from rlver.components.ability.kept import KeptTask, ability_kept, margin_of
from rlver.components.ability.noninferiority import LossOutcome, NotComparable, overall
from rlver.components.settings.sections import PromotionSettings

ALLOWED = PromotionSettings(skill_kept=0.6, margins={"bits_per_byte": 0.05})
RELATIONS = 16


def measured(scores: list[float], **changes: Any) -> dict[str, Any]:
    """A task of accuracy whose items come in 16 relations of the same size, one after the other."""
    size = len(scores) / RELATIONS
    items = [{"doc": f"d{n:04d}", "prompt": "q", "score": score, "cluster": f"r{int(n / size):02d}"} for n, score in enumerate(scores)]
    return {"metric": "acc", "higher_is_better": True, "chance": 0.25, "value": sum(scores) / len(scores), "items": items, **changes}


def kept(before: dict[str, Any], after: dict[str, Any], **changes: Any) -> KeptTask:
    (task,) = ability_kept({"tasks": {"t": before}, **changes}, {"tasks": {"t": after}}, ALLOWED, 500, 7)
    return task


def test_the_margin_is_a_share_of_the_skill_above_chance():
    assert margin_of("t", measured([1.0, 0.0] * 160), ALLOWED) == pytest.approx(0.4 * 0.25)
    assert margin_of("t", measured([1.0, 0.0] * 160, chance=0.0), ALLOWED) == pytest.approx(0.4 * 0.5)
    assert margin_of("t", measured([0.7] * 320, metric="bits_per_byte", chance=None), ALLOWED) == 0.05


def test_where_there_is_no_skill_or_no_level_of_chance_nothing_is_passed():
    with pytest.raises(NotComparable, match="no better than chance"):
        margin_of("t", measured([1.0, 0.0, 0.0, 0.0] * 80), ALLOWED)
    with pytest.raises(NotComparable, match=r"no level of chance is known.*promotion\.margins\.perplexity"):
        margin_of("t", measured([3.0] * 320, metric="perplexity", chance=None), ALLOWED)


def test_a_loss_in_few_relations_counts_as_the_few_observations_that_it_is():
    """The same 16 items lost, one in every relation or all in one: the second says much less about another relation."""
    before = measured([1.0] * 160 + [0.0] * 160)
    spread = [0.0 if n % 10 == 0 and n < 160 else float(n < 160) for n in range(320)]
    in_one = [0.0 if n < 16 else float(n < 160) for n in range(320)]
    wide, narrow = kept(before, measured(in_one)), kept(before, measured(spread))
    assert wide.change == narrow.change == pytest.approx(-0.05)
    assert wide.clusters == narrow.clusters == RELATIONS
    assert wide.ci95.low < narrow.ci95.low - 0.02
    assert (narrow.outcome, wide.outcome) == (LossOutcome.PASS, LossOutcome.INCONCLUSIVE)


def test_right_and_wrong_items_keep_some_width_when_no_item_flips():
    same = measured([1.0, 0.0] * 160)
    assert kept(same, same).ci95.low < 0 and kept(same, same).outcome == LossOutcome.PASS


def test_bits_that_stay_the_same_in_every_relation_are_kept():
    """Sixteen equal differences: Wilson's end for 0 of 16 (.194) of .01, not of the size of the bits."""
    same = measured([0.70] * 320, metric="bits_per_byte", higher_is_better=False, chance=None)
    found = kept(same, same)
    assert found.outcome == LossOutcome.PASS and found.ci95 == pytest.approx((-0.00194, 0.00194), abs=1e-5)


def test_more_bits_are_a_loss():
    before = measured([0.70 + n % 7 / 100 for n in range(320)], metric="bits_per_byte", higher_is_better=False, chance=None)
    lost = kept(before, measured([0.80 + n % 5 / 100 for n in range(320)], metric="bits_per_byte", higher_is_better=False, chance=None))
    assert lost.outcome == LossOutcome.FAIL and lost.change == pytest.approx(-0.09, abs=0.002)


def test_few_items_and_smoke_tests_prove_nothing():
    few, same = measured([1.0] * 29), measured([1.0, 0.0] * 160)
    assert kept(few, few).outcome == LossOutcome.INCONCLUSIVE
    assert kept(same, same, smoke_test=True).outcome == LossOutcome.INCONCLUSIVE


def test_a_task_of_one_side_is_no_comparison():
    task = measured([1.0, 0.0] * 160)
    for tasks, others in (({"a": task, "b": task}, {"a": task}), ({"a": task}, {"a": task, "b": task})):
        with pytest.raises(NotComparable, match="measured on one side only: b"):
            ability_kept({"tasks": tasks}, {"tasks": others}, ALLOWED, 500, 7)


def test_two_programs_round_differently_and_are_not_compared():
    same = measured([1.0, 0.0] * 160)
    with pytest.raises(NotComparable, match="base was measured with backend vllm, tuned with hf"):
        kept(same, same, backend="vllm")


def test_all_tasks_must_pass():
    same, lost = measured([1.0, 0.0] * 160), measured([0.0] * 320)
    before = {"tasks": {"a": same, "b": same}}
    assert overall(one.outcome for one in ability_kept(before, before, ALLOWED, 500, 7)) == LossOutcome.PASS
    assert overall(one.outcome for one in ability_kept(before, {"tasks": {"a": same, "b": lost}}, ALLOWED, 500, 7)) == LossOutcome.FAIL
    unsure = measured([1.0, 0.0] * 144 + [0.0] * 32)
    assert (
        overall(one.outcome for one in ability_kept(before, {"tasks": {"a": same, "b": unsure}}, ALLOWED, 500, 7))
        == LossOutcome.INCONCLUSIVE
    )
