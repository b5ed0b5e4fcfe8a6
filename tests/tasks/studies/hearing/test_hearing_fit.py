"""Fitting the reader: what a label says nothing of teaches nothing, and nets learn what they are shown."""

from __future__ import annotations

import torch

from rlver.components.domain.acts import ACTS
from rlver.components.domain.persona import PersonaKind
from rlver.components.labels.labelled import labelled
from rlver.components.users.heard.reading import OUTPUTS, QUALITIES, SIGNS_HEARD, VALUES
from rlver.components.users.special.signs import SIGNS
from rlver.tasks.studies.hearing.fit import fitted_net, targets
from rlver.tasks.studies.special.signs_found import APART, LABELS, LabelledSigns, load_signs


def named(row: torch.Tensor) -> dict[str, float]:
    return {name: value for name, value in zip(OUTPUTS, row.tolist(), strict=True) if value == value}


def test_a_target_is_what_the_labels_say_and_nothing_else() -> None:
    row = next(row for row in labelled() if row.acts and row.quality and row.value == 1)
    signed = LabelledSigns(PersonaKind.DANGER, "", "I took pills.", "Shall we ring somebody together?", frozenset({"points_to_help"}))
    ordinary, special = map(named, targets([row, signed]))
    assert set(ordinary) == {*ACTS, *QUALITIES, *(f"above {value}" for value in VALUES[:-1])}
    assert {act for act in ACTS if ordinary[act]} == row.acts and {one for one in QUALITIES if ordinary[one]} == row.quality
    assert [ordinary[f"above {value}"] for value in VALUES[:-1]] == [1, 1, 1, 0]
    assert special == {sign: float(sign == "points_to_help") for sign in SIGNS[PersonaKind.DANGER]}
    assert set(SIGNS_HEARD) == {sign for signs in SIGNS.values() for sign in signs}


def test_nets_learn_what_is_known_and_nothing_of_what_is_not() -> None:
    features_NF = torch.randn(200, 12, generator=torch.Generator().manual_seed(1))
    targets_NO = torch.full((200, len(OUTPUTS)), torch.nan)
    targets_NO[:, 0] = (features_NF[:, 3] > 0).float()
    net, loss = fitted_net(features_NF, targets_NO, 1)
    assert torch.isfinite(torch.tensor(loss))
    with torch.no_grad():
        found = net.eval()(features_NF).sigmoid()
    assert ((found[:, 0] > 0.5) == (targets_NO[:, 0] > 0.5)).float().mean() > 0.9
    again = targets_NO.clone()
    again[0, 1] = 1.0
    assert torch.isfinite(fitted_net(features_NF, again, 1)[0][1].weight).all()


def test_what_is_fitted_shares_no_message_and_no_reply_with_what_is_kept_apart() -> None:
    apart, fitted = (
        [row for path in LABELS.glob("*.yaml") if (path.stem == APART) is kept for row in load_signs(path)] for kept in (True, False)
    )
    assert len(fitted) > 800 and len(apart) > 120
    assert not {row.user for row in apart} & {row.user for row in fitted} and not {row.reply for row in apart} & {
        row.reply for row in fitted
    }
