import pytest

from rlver.components.report.portraits import estimate
from rlver.components.report.tables import ends
from rlver.components.scoring import intervals
from rlver.components.scoring.sentient import sentient_metrics
from rlver.components.scoring.statistics import Interval
from rlver.components.scoring.units import Sampling


def test_an_interval_stands_in_json_by_the_names_of_its_ends():
    assert intervals.to_json(Interval(1 / 3, 2.5)) == {"lo": 0.333333, "hi": 2.5}
    assert intervals.from_json(intervals.to_json(Interval(-1.5, 2.5))) == Interval(-1.5, 2.5)


def test_the_list_of_earlier_files_is_read_as_well():
    assert intervals.from_json([-1.5, 2]) == Interval(-1.5, 2.0) == ends([-1.5, 2])
    assert estimate({"value": 1, "ci95": [0, 2]}) == estimate({"value": 1, "ci95": {"lo": 0, "hi": 2}}) == (1, (0, 2))


@pytest.mark.parametrize("other", [None, "1 to 5", 3, [1], [1, 2, 3], {"lo": 1}, {"lo": "low", "hi": 2}])
def test_anything_else_is_no_interval(other):
    with pytest.raises((LookupError, TypeError, ValueError)):
        intervals.from_json(other)


def test_no_list_is_left_in_the_metrics_of_a_policy(dialogue):
    """DVC shows numbers and what is nested by name, and leaves lists out."""
    tuned = [dialogue(name, [3] * 10) for name in "abc"]
    base = [dialogue(name, [0] * 10) for name in "abc"]
    assert list(_lists(sentient_metrics(tuned, base, Sampling(200, 7)))) == []


def _lists(value, path=""):
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _lists(inner, f"{path}/{name}")
    elif isinstance(value, list):
        yield path
