from __future__ import annotations

from typing import Any

import pytest

from rlver.components.ability.noninferiority import NotComparable, compare_general


def measured(
    scores: list[float], *, higher_is_better: bool = True, smoke_test: bool = False, name: str = "t", **changes: Any
) -> dict[str, Any]:
    items = [{"doc": f"d{number}", "prompt": f"p{number}", "score": score} for number, score in enumerate(scores)]
    task = {
        "metric": "acc",
        "higher_is_better": higher_is_better,
        "value": sum(scores) / len(scores),
        "ci95": [0.0, 1.0],
        "n": len(scores),
        "items": items,
        **changes,
    }
    return {"tasks": {name: task}, "smoke_test": smoke_test}


def test_no_item_flips_passes():
    same = measured([1.0, 0.0] * 100)
    comparison = compare_general(same, same, 0.05)
    row = comparison["tasks"]["t"]
    assert (row["outcome"], comparison["outcome"], row["difference"]) == ("pass", "pass", 0)
    assert row["lower95"] == pytest.approx(-1.645 / 202, abs=1e-4)


def test_losing_a_fifth_fails():
    base, tuned = measured([1.0] * 200), measured([1.0] * 160 + [0.0] * 40)
    row = compare_general(base, tuned, 0.05)["tasks"]["t"]
    assert (row["outcome"], row["difference"]) == ("fail", -0.2)


def test_a_small_loss_on_few_items_is_inconclusive():
    base, tuned = measured([1.0] * 100), measured([1.0] * 97 + [0.0] * 3)
    row = compare_general(base, tuned, 0.05)["tasks"]["t"]
    assert row["outcome"] == "inconclusive"  # 3 points lost, plus or minus 3
    assert row["lower95"] < -0.05 < row["upper95"]


def test_where_less_is_better_a_rise_is_a_loss():
    base = measured([0.8 + number % 5 / 100 for number in range(100)], higher_is_better=False)
    worse = measured([1.0 + number % 7 / 100 for number in range(100)], higher_is_better=False)
    lost = compare_general(base, worse, 0.05)["tasks"]["t"]
    assert lost["outcome"] == "fail"
    assert lost["difference"] == pytest.approx(-0.21, abs=0.01)
    assert compare_general(worse, base, 0.05)["tasks"]["t"]["outcome"] == "pass"


def test_items_are_paired_by_document_and_not_by_position():
    base = measured([float(number % 2) for number in range(100)])
    turned = {**base, "tasks": {"t": {**base["tasks"]["t"], "items": base["tasks"]["t"]["items"][::-1]}}}
    assert compare_general(base, turned, 0.05) == compare_general(base, base, 0.05)


def test_another_prompt_is_another_test():
    base, tuned = measured([1.0] * 50), measured([1.0] * 50)
    tuned["tasks"]["t"]["items"][7]["prompt"] = "other"
    with pytest.raises(NotComparable, match=r"task t: 1 of 50 items were asked differently \(prompt hashes differ\)"):
        compare_general(base, tuned, 0.05)


def test_other_items_or_metrics_are_refused():
    base = measured([1.0] * 50)
    with pytest.raises(NotComparable, match="task t: 10 items were measured on one side only"):
        compare_general(base, measured([1.0] * 40), 0.05)
    with pytest.raises(NotComparable, match="base has metric acc, tuned has f1"):
        compare_general(base, measured([1.0] * 50, metric="f1"), 0.05)
    with pytest.raises(NotComparable, match="no benchmark task in common"):
        compare_general(base, measured([1.0] * 50, name="other"), 0.05)
    twice = measured([1.0] * 50)
    twice["tasks"]["t"]["items"].append(twice["tasks"]["t"]["items"][0])
    with pytest.raises(NotComparable, match="documents are not unique"):
        compare_general(twice, base, 0.05)


def test_scores_of_two_versions_of_a_task_are_not_compared():
    base, tuned = measured([1.0, 0.0] * 25), measured([1.0, 0.0] * 25)
    base["tasks"]["t"]["version"], tuned["tasks"]["t"]["version"] = "1.0", "2.0"
    with pytest.raises(NotComparable, match=r"task t: base was scored by version 1\.0 of the task, tuned by 2\.0"):
        compare_general(base, tuned, 0.05)


@pytest.mark.parametrize("score", [1.0, 0.8])
def test_one_item_is_not_compared(score: float):
    with pytest.raises(NotComparable, match="task t: one item has no interval; measure more"):
        compare_general(measured([score]), measured([score]), 0.05)


def test_a_smoke_test_concludes_nothing():
    base, limited = measured([1.0] * 200), measured([1.0] * 200, smoke_test=True)
    comparison = compare_general(base, limited, 0.05)
    assert (comparison["outcome"], comparison["smoke_test"]) == ("inconclusive", True)


def test_one_failing_task_fails_the_policy_and_lonely_tasks_are_named():
    good, bad, lonely = measured([1.0] * 200, name="a"), measured([1.0] * 200, name="b"), measured([1.0] * 200, name="c")
    lost = measured([0.0] * 200, name="b")
    base = {"tasks": {**good["tasks"], **bad["tasks"], **lonely["tasks"]}}
    tuned = {"tasks": {**good["tasks"], **lost["tasks"]}}
    comparison = compare_general(base, tuned, 0.05)
    assert {name: row["outcome"] for name, row in comparison["tasks"].items()} == {"a": "pass", "b": "fail"}
    assert (comparison["outcome"], comparison["not_compared"]) == ("fail", ["c"])


def test_the_detectable_loss_is_reported():
    # 100 items, none flips: spread 1/102 x 10, so 2.487 / 102
    row = compare_general(measured([1.0] * 100), measured([1.0] * 100), 0.05)["tasks"]["t"]
    assert row["detectable"] == pytest.approx(2.487 / 102, abs=1e-4)
    bits = measured([0.8] * 100, higher_is_better=False)
    assert compare_general(bits, bits, 0.05)["tasks"]["t"]["detectable"] is None, "no spread was seen"
