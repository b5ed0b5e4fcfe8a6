"""The comparison of encoders: its measures tell a reader that hears from one that does not, and nonsense from replies."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from benchmarks.hearing_encoders import better_and_worse, heard, likelihood, measures
from rlver.components.labels.labelled import Labelled, labelled
from rlver.components.users.heard.reading import OUTPUTS
from rlver.tasks.studies.hearing.fit import targets
from rlver.tasks.studies.hearing.nonsense import made


@pytest.fixture(scope="module")
def rows() -> list[Labelled]:
    return [row for row in labelled() if row.style == "chatty"][:120]


def test_who_knows_the_labels_has_every_figure_at_one_and_who_says_the_same_of_all_has_none(rows: list[Labelled]) -> None:
    everything = [*rows, *made(rows, 1, 0.5)]
    perfect = measures(targets(everything), everything, len(rows))
    assert list(perfect.values()) == pytest.approx([1.0] * len(perfect))
    nothing = measures(torch.full((len(everything), len(OUTPUTS)), 0.5), everything, len(rows))
    assert nothing["better of two"] == 0 and nothing["AUC good before nonsense"] == pytest.approx(0.5) and nothing["F1 of acts"] < 0.3


def test_pairs_are_of_one_message_with_the_better_reply_first(rows: list[Labelled]) -> None:
    three = [replace(rows[0], user=user, value=value) for user, value in (("a", 1), ("a", -1), ("b", 2))]
    assert list(better_and_worse(three)) == [(0, 1)]


def test_nets_learn_from_the_fitted_replies_alone(rows: list[Labelled]) -> None:
    target_NO = targets(rows)
    features_NF = torch.cat([target_NO, torch.randn(len(rows), 3, generator=torch.Generator().manual_seed(1))], dim=1)
    found = heard(features_NF, 90, target_NO)
    assert found.shape == (len(rows) - 90, len(OUTPUTS))
    other = target_NO.clone()
    other[90:] = 1 - other[90:]
    assert torch.equal(heard(features_NF, 90, other), found), "the labels of what is measured were looked at"


def test_likelihood_of_a_reply_is_that_of_its_tokens() -> None:
    log_probs_TV = torch.tensor([[0.5, 0.25, 0.25], [0.1, 0.8, 0.1]]).log()
    found = likelihood(log_probs_TV, torch.tensor([0, 2]))
    assert found[:4].exp().tolist() == pytest.approx([(0.5 * 0.1) ** 0.5, 0.1, 0.5, 0.1])
    assert found[6] == 0.5
