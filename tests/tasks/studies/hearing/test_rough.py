"""Text as people type it: what is left out, what stays, and that good and bad are roughened alike."""

from __future__ import annotations

from random import Random

from heard_by_hand import AS_PEOPLE_TYPE, every_label

from rlver.tasks.studies.hearing.rough import SHARE, WAYS, rough, roughened

TEXT = "I'm sorry. They didn't even ask you; Bernard never does!"


def test_each_way_leaves_out_one_thing() -> None:
    no_end, no_capitals, no_marks, no_apostrophes, slips = (way(TEXT, Random(1)) for way in WAYS)
    assert no_end == TEXT.removesuffix("!")
    assert no_capitals == TEXT.lower()
    assert no_marks == "I'm sorry They didn't even ask you Bernard never does!"
    assert no_apostrophes == TEXT.replace("'", "")
    assert slips == TEXT, "most words are typed as they are"
    slipped = WAYS[-1](" ".join([TEXT] * 60), Random(1)).split()
    assert 0 < sum(one != other for one, other in zip(slipped, " ".join([TEXT] * 60).split(), strict=True)) < 0.1 * len(slipped)


def test_a_question_keeps_its_mark() -> None:
    assert all("?" in rough("Did Bernard ask you?", Random(seed)) for seed in range(30))


def test_a_share_of_replies_and_messages_is_rough_whatever_their_labels() -> None:
    rows = [row for row in every_label() if row.is_for_fitting and row.style not in AS_PEOPLE_TYPE]  # theirs are rough as they come
    found = roughened(rows, 1)
    assert found == roughened(rows, 1) != roughened(rows, 2)
    assert [row.acts for row in found] == [row.acts for row in rows] and [row.value for row in found] == [row.value for row in rows]

    def share(of: str, good: bool) -> float:
        asked = [(getattr(one, of), getattr(other, of)) for one, other in zip(rows, found, strict=True) if (one.value > 0) is good]
        return sum(one != other for one, other in asked) / len(asked)

    shares = [share(of, good) for of in ("reply", "user") for good in (True, False)]
    assert all(0.8 * SHARE < one <= SHARE + 0.02 for one in shares) and max(shares) - min(shares) < 0.04, shares
