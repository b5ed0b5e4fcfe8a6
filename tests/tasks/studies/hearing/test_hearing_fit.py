"""What the reader is fitted to: what a label says nothing of teaches nothing, and what is kept apart is not among it."""

from __future__ import annotations

import pytest
import torch
from heard_by_hand import every_label

from rlver.components.domain.acts import ACTS
from rlver.components.domain.persona import HiddenNeed, PersonaKind
from rlver.components.labels.labelled import SHORT, WRITTEN, WRITTEN_APART
from rlver.components.labels.warmup import GOOD, collection
from rlver.components.users.heard.reading import OUTPUTS, QUALITIES, SIGNS_HEARD, VALUES
from rlver.components.users.scripted.effects import SERVES
from rlver.components.users.special.signs import SIGNS
from rlver.tasks.studies.hearing.drawn import DRAWN, DRAWN_APART, DRAWN_SHORT, short, short_apart, written
from rlver.tasks.studies.hearing.fit import COHERENT, SELDOM_GRANTED, Rows, rows_to_fit
from rlver.tasks.studies.hearing.listening import fitted_messages
from rlver.tasks.studies.hearing.net import Net, claimed_too_low
from rlver.tasks.studies.hearing.rough import SHARE
from rlver.tasks.studies.special.signs_found import APART, LABELS, LabelledSigns, load_signs


def named(row: torch.Tensor) -> dict[str, float]:
    return {name: value for name, value in zip(OUTPUTS, row.tolist(), strict=True) if value == value}


def test_a_target_is_what_the_labels_say_and_nothing_else() -> None:
    row = next(row for row in every_label() if row.acts and row.quality and row.value == 1)
    signed = LabelledSigns(PersonaKind.DANGER, "", "I took pills.", "Shall we ring somebody together?", frozenset({"points_to_help"}))
    ordinary, special = map(named, Rows([row], [], [signed], [], [], [], 0).targets())
    assert set(ordinary) == {*ACTS, *QUALITIES, *(f"above {value}" for value in VALUES[:-1])}
    assert {act for act in ACTS if ordinary[act]} == row.acts and {one for one in QUALITIES if ordinary[one]} == row.quality
    assert [ordinary[f"above {value}"] for value in VALUES[:-1]] == [1, 1, 1, 0]
    assert special == {sign: float(sign == "points_to_help") for sign in SIGNS[PersonaKind.DANGER]}
    assert set(SIGNS_HEARD) == {sign for signs in SIGNS.values() for sign in signs}


def test_qualities_that_the_writers_of_a_style_grant_seldom_teach_nothing() -> None:
    row = next(row for row in every_label() if row.style in SELDOM_GRANTED)
    (ordinary,) = map(named, Rows([row], [], [], [], [], [], 0).targets())
    assert set(QUALITIES) - set(ordinary) == {"specific", "picks_up"}


def test_a_written_reply_is_taught_as_coherent_and_as_beside_the_point_under_another_message() -> None:
    own, misplaced = written(1)
    assert len(own) == len(misplaced) == DRAWN and (own, misplaced) == written(1) != written(2)
    assert {row.reply for row in misplaced} <= {row.reply for row in own}
    together = {(user, reply) for one in collection(WRITTEN) for user, reply in zip(one.users, one.replies, strict=True)}
    assert all((row.user, row.reply) in together for row in own) and not {(row.user, row.reply) for row in misplaced} & together
    told, beside = map(named, Rows([], [], [], [], own[:1], misplaced[:1], 0).targets())
    assert told == {"coherent": 1.0}
    assert set(beside) == {*ACTS, "coherent", "above -1", "above 0", "above 1"} and not any(beside.values())


def test_a_short_reply_is_taught_with_the_act_of_its_need_and_misplaced_as_one_that_may_still_fit() -> None:
    own, misplaced = short(1)
    assert len(own) == len(misplaced) == DRAWN_SHORT and {act for row in own for act in row.acts} == set(SERVES.values())
    serving = {
        (user, reply): SERVES[HiddenNeed(one.need)]
        for one in collection(SHORT)
        for user, reply, mark in zip(one.users, one.replies, one.marks, strict=True)
        if mark == GOOD
    }
    assert all(row.acts == {serving[row.user, row.reply]} for row in own) and not any(row.acts for row in misplaced)
    told, beside = map(named, Rows([], [], [], [], own[:1], misplaced[:1], 0).targets())
    assert told == {"coherent": 1.0, **dict.fromkeys(own[0].acts, 1.0), "above -1": 1.0, "above 0": pytest.approx(0.95)}
    assert beside == {"coherent": pytest.approx(0.2), "above 0": pytest.approx(0.2), "above 1": 0.0}
    weights = Rows([], [], [], [], own[:1], misplaced[:1], 0).weights()
    assert weights[0, COHERENT] == weights[1, COHERENT] > weights[0, 0] > 1, "they count as those that were read strictly"


def test_short_replies_that_are_kept_for_tests_stand_under_no_message_that_is_fitted() -> None:
    fitted = fitted_messages(every_label())
    assert {row.user for rows in short(1) for row in rows} <= fitted
    assert {row.user for rows in short_apart(1, set()) for row in rows} & fitted, "else nothing was asked"
    own, misplaced = short_apart(1, fitted)
    assert len(own) == len(misplaced) == DRAWN_APART and not {row.user for row in (*own, *misplaced)} & fitted


def test_no_dialogue_with_a_message_that_is_kept_apart_is_shown() -> None:
    apart = {row.user for row in every_label() if row.style == WRITTEN_APART}
    assert len(apart) > 400
    assert not apart & {row.user for rows in written(1, apart) for row in rows}
    assert apart & {row.user for rows in written(1) for row in rows}, "else nothing was asked"


def test_a_share_of_every_part_but_the_signs_is_rough_and_each_part_is_what_it_was_drawn_as() -> None:
    rows, every = rows_to_fit(1), every_label()
    own, misplaced = written(1, {row.user for row in every if row.style == WRITTEN_APART})
    short_own, short_misplaced = short(1)
    parts = {
        "used": (rows.used, [row for row in every if row.is_for_fitting]),
        "strict": (rows.strict, [row for row in every if row.is_for_strict_fitting]),
        "written": (rows.written, [*own, *short_own]),
        "misplaced": (rows.misplaced, [*misplaced, *short_misplaced]),
    }
    for name, (fitted, drawn) in parts.items():
        assert [(row.style, row.acts, row.value, row.quality) for row in fitted] == [
            (row.style, row.acts, row.value, row.quality) for row in drawn
        ], name
        rough = sum(one.reply != other.reply for one, other in zip(fitted, drawn, strict=True)) / len(drawn)
        assert 0.7 * SHARE < rough < SHARE + 0.05, (name, rough)
    assert rows.kept == len(every) - len(rows.used) - len(rows.strict) > 3_000


def test_strict_labels_of_coherence_count_more_than_others() -> None:
    ordinary, strict = (next(row for row in every_label() if getattr(row, name)) for name in ("is_for_fitting", "is_for_strict_fitting"))
    first, second = Rows([ordinary], [], [], [strict], [], [], 0).weights()
    assert first[COHERENT] < first[0] == 1 < second[0] < second[COHERENT]


def test_what_is_fitted_shares_no_message_and_no_reply_with_what_is_kept_apart() -> None:
    apart, fitted = (
        [row for path in LABELS.glob("*.yaml") if (path.stem == APART) is kept for row in load_signs(path)] for kept in (True, False)
    )
    assert len(fitted) > 800 and len(apart) > 120
    assert not {row.user for row in apart} & {row.user for row in fitted} and not {row.reply for row in apart} & {
        row.reply for row in fitted
    }


def test_what_is_claimed_too_low_is_measured_where_a_label_says_something() -> None:
    torch.manual_seed(1)
    features_NF, targets_NO = torch.randn(60, 5), torch.zeros(60, len(OUTPUTS))
    specific = OUTPUTS.index("specific")
    targets_NO[:45, specific] = 1.0
    net = Net(features_NF, 0.0, 0.0)
    offset_O = claimed_too_low(net, features_NF, targets_NO)
    assert (net(features_NF)[:, specific] + offset_O[specific]).sigmoid().mean().item() == pytest.approx(0.75, abs=1e-4)
    targets_NO[40:, specific] = torch.nan
    offset_O = claimed_too_low(net, features_NF, targets_NO)
    assert (net(features_NF)[:40, specific] + offset_O[specific]).sigmoid().mean().item() > 0.98, "40 of the 40 that are labelled"
    targets_NO[20:40, specific] = 0.0
    offset_O = claimed_too_low(net, features_NF, targets_NO)
    assert (net(features_NF)[:40, specific] + offset_O[specific]).sigmoid().mean().item() == pytest.approx(0.5, abs=1e-4)
    targets_NO[:, specific] = torch.nan
    with pytest.raises(ValueError, match="labelled with specific"):
        claimed_too_low(net, features_NF, targets_NO)
