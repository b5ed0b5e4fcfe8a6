from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from rlver.components.scoring.intervals import json_ready
from rlver.components.scoring.statistics import Interval
from rlver.components.users.distilled.features import NAMES
from rlver.tasks.studies.distil import agreement
from rlver.tasks.studies.distil.agreement import PairedAppraisals
from rlver.tasks.studies.distil.fidelity import _shown, markdown

SAID, RECORDED = np.array([1.0, 2.0, -3.0, 4.0]), np.array([2.0, 1.0, 3.0, 5.0])


def test_one_persona_gives_no_figure_and_a_dash():
    alone = PairedAppraisals(SAID, RECORDED, np.zeros(4, dtype=np.int64))
    found = [
        agreement.correlation(alone, 100, 1),
        agreement.mean_error(alone, 100, 1),
        agreement.sign_accuracy(alone, 100, 1),
        *agreement.ranking(alone, np.array([0, 1, 2, 2]), 100, 1).values(),
    ]
    assert [(one.value, one.ci95) for one in found] == [(None, None)] * 7
    assert _shown(json_ready(found[0])) == "–"


def test_what_is_undefined_on_the_learning_curve_is_a_dash_too():
    point = {"dialogues": 4, "turns": 20, "free_r": None, "told_r": None, "told_sign": 0.75}
    card = markdown({"appraiser": "one", "how": "", "splits": {}, "learning_curve": [point]})
    assert "| 4 | 20 | – | – | 0.750 |" in card


def test_a_figure_of_few_personas_has_no_interval_and_of_five_one_with_a_width():
    found = agreement.mean_error(PairedAppraisals(SAID, RECORDED, np.array([0, 0, 1, 1])), 100, 1)
    assert found.value == pytest.approx(9 / 4) and found.ci95 is None
    one, other = np.array([*SAID, 0.0]), np.array([*RECORDED, 0.0])
    four, five = (agreement.mean_error(PairedAppraisals(one, other, np.array([0, 1, 2, 3, last])), 100, 1) for last in (3, 4))
    assert four.ci95 is None and five.ci95 is not None and five.ci95.low < five.ci95.high


def test_where_all_replies_are_as_long_their_length_says_the_mean():
    length = np.zeros((3, len(NAMES)))
    examples = SimpleNamespace(change=np.array([1.0, 2.0, 6.0]), need=np.array(["a", "b", "a"]), measured=length)
    found = agreement.baselines(examples, np.arange(3), np.arange(2))  # type: ignore[arg-type]
    assert found["length"].tolist() == [3.0, 3.0]


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


def ranked(said: list[float], recorded: list[float]) -> dict[str, agreement.Agreed]:
    """Of models with these means, the same with each of five personas."""
    models = np.arange(len(said))
    both = PairedAppraisals(np.array(said * 5), np.array(recorded * 5), np.repeat(np.arange(5), len(said)))
    return agreement.ranking(both, np.tile(models, 5), 50, 1)


def test_a_ranking_has_an_interval_over_models_by_leaving_out_each() -> None:
    found = ranked([1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 4.0, 3.0])
    # Spearman .8; without the first or second model .5, without the third or fourth 1: variance 3/4 x 4 x .25^2 = .1875, Student's t 3.182
    assert found["spearman_models"].value == found["spearman"].value == pytest.approx(0.8)
    assert found["spearman_models"].ci95 == pytest.approx(Interval(0.8 - 3.18245 * 0.1875**0.5, 1.0), abs=1e-4)
    assert found["spearman"].ci95 == pytest.approx(Interval(0.8, 0.8)), "personas who are all alike say that no other persona would move it"
    assert found["spearman_models"].n == 4


def test_a_ranking_of_three_models_or_a_perfect_one_has_no_interval_over_models() -> None:
    assert ranked([1.0, 2.0, 3.0], [1.0, 3.0, 2.0])["kendall_models"].ci95 is None
    perfect = ranked([1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, 4.0])["kendall_models"]
    assert perfect.value == pytest.approx(1.0) and perfect.ci95 is None
