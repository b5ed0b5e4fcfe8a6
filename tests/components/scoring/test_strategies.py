from __future__ import annotations

import pytest

from rlver.components.domain.transcript import Evidence
from rlver.components.scoring.acts import strategies


def content(*acts: str) -> tuple[Evidence, ...]:
    return (*(Evidence(step="content", what=act) for act in acts), Evidence(step="target", what="serves_need"))


def test_frequency_and_contribution(dialogue, failed):
    a = dialogue("a", [6, -2, 4], evidence=[content("praise", "question"), content("advice"), content("praise")])
    b = dialogue("b", [0], evidence=[content("praise", "praise")])
    rows = {row.act: row for row in strategies([a, b, failed("c")], 200, 7)}
    assert list(rows) == ["praise", "advice", "question"]  # by frequency, then name; "serves_need" is no act
    assert rows["praise"].replies == 3
    assert rows["praise"].frequency.value == pytest.approx(3 / 4)
    assert rows["praise"].contribution.value == pytest.approx((6 + 4 + 0) / 3)
    assert rows["advice"].contribution.value == -2
    assert rows["advice"].contribution.ci95 == (-10, 10)  # one persona
    assert rows["praise"].contribution.ci95 == (-10, 10)  # personas 5 (of 2 replies) and 0: two are hardly more


def test_without_appraised_replies_there_are_no_strategies(failed):
    assert strategies([failed("a")], 200, 7) == []
