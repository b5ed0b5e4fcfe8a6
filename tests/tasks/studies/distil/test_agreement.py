from __future__ import annotations

import numpy as np
import pytest

from rlver.tasks.studies.distil import agreement
from rlver.tasks.studies.distil.agreement import PairedAppraisals
from rlver.tasks.studies.distil.fidelity import _plain, _shown

SAID, RECORDED = np.array([1.0, 2.0, -3.0, 4.0]), np.array([2.0, 1.0, 3.0, 5.0])


def test_one_persona_gives_no_figure_and_a_dash():
    alone = PairedAppraisals(SAID, RECORDED, np.zeros(4, dtype=np.int64))
    found = [
        agreement.correlation(alone, 100, 1),
        agreement.mean_error(alone, 100, 1),
        agreement.sign_accuracy(alone, 100, 1),
        *agreement.ranking(alone, np.array([0, 1, 2, 2]), 100, 1).values(),
    ]
    assert [(one.value, one.ci95) for one in found] == [(None, None)] * 5
    assert _shown(_plain(found[0])) == "–"


def test_two_personas_have_a_figure_and_an_interval_with_a_width():
    found = agreement.mean_error(PairedAppraisals(SAID, RECORDED, np.array([0, 0, 1, 1])), 100, 1)
    assert found.value == pytest.approx(9 / 4) and found.ci95 is not None and found.ci95.low < found.ci95.high


def test_the_figures_by_hand():
    two = np.array([0, 0, 1, 1])
    paired = PairedAppraisals(np.array([1.0, 2.0, -3.0, 0.0]), np.array([2.0, -1.0, -3.0, 0.0]), two)
    assert agreement.sign_accuracy(paired, 50, 1).value == pytest.approx(2 / 3), "a recorded 0 has no direction"
    assert agreement.correlation(paired, 50, 1).value == pytest.approx(np.corrcoef(paired.said, paired.recorded)[0, 1])
    # from one reply of a dialogue to the next: said +1, recorded -3; said +3, recorded +3
    assert agreement.direction_agreement(paired, two, 50, 1).value == 0.5
    orders = PairedAppraisals(
        np.array([1.0, 2.0, 3.0, 1.0, 2.0, 3.0]), np.array([1.0, 3.0, 2.0, 1.0, 3.0, 2.0]), np.array([0, 0, 0, 1, 1, 1])
    )
    found = agreement.ranking(orders, np.array([0, 1, 2, 0, 1, 2]), 50, 1)
    assert found["kendall"].value == pytest.approx(1 / 3) and found["spearman"].value == pytest.approx(0.5)
