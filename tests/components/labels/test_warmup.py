"""The dialogues of the warm-up: how their file is read, and what the one that is shipped holds."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from rlver.components.domain.files import BadFile
from rlver.components.labels.labelled import Labelled, labelled
from rlver.components.labels.warmup import DIALOGUES, Shown, collection, is_held_out, serving, shown

GOOD = "# one\nU: I lost it.\nA: [good] That hurts.\nU: Yes.\nA: [bad] Cheer up.\n\n# two\nU: Hello.\nA: [mediocre] Hello to you.\n"


COUNTS = {"scripted_users": 350, "talking_users": 540, "plain": 1117, "simple": 1149, "simple_again": 1149}


def everything() -> list[Shown]:
    return [one for name in COUNTS for one in collection(name)]


def test_a_collection_that_there_is_not_is_named_with_those_that_there_are() -> None:
    with pytest.raises(ValueError, match="no collection 'phrase_book', only plain, scripted_users, simple, simple_again, talking_users"):
        collection("phrase_book")


def written(folder: Path, text: str) -> Path:
    (folder / "shown.txt").write_text(text, encoding="utf-8")
    return folder / "shown.txt"


def test_dialogues_are_read_in_their_order(tmp_path: Path) -> None:
    first, second = shown(written(tmp_path, GOOD))
    assert first == Shown(("I lost it.", "Yes."), ("That hurts.", "Cheer up."), ("good", "bad"))
    assert second == Shown(("Hello.",), ("Hello to you.",), ("mediocre",))
    assert shown(written(tmp_path, GOOD.replace("#", "#\n#"))) == [first, second], "a dialogue without words is none"
    assert shown(written(tmp_path, "")) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("A: [good] That hurts.\n", "line 1: expected U: and A:"),
        ("U: One.\nU: Two.\n", "line 2: expected U: and A:"),
        ("U: One.\nA: [good] Yes.\nA: [good] Yes.\n", "line 3: expected"),
        ("U: One.\nA: [great] Yes.\n", "line 2: expected"),
        ("U: One.\nA: Yes.\n", "line 2: expected"),
        ("U: One.\nA: [good]\n", "line 2: expected"),
        ("U: One.\nA: [good]  \n", "line 2: expected"),
        ("U: One.\nand something else\n", "line 2: expected"),
        ("U: One.\n# next\nU: Two.\nA: [good] Yes.\n", "line 2: the dialogue before ends without a reply"),
        ("U: One.\nA: [good] Yes.\nU: Two.\n", "the end: the dialogue before ends without a reply"),
    ],
)
def test_a_file_of_another_form_is_refused_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(BadFile) as refusal:
        shown(written(tmp_path, text))
    assert message in str(refusal.value) and str(refusal.value).startswith("shown.txt: ") and "\n" not in str(refusal.value)


def test_the_shipped_dialogues_are_as_many_as_is_said_and_no_reply_that_is_taught_is_there_twice() -> None:
    assert {path.stem: len(collection(path.stem)) for path in DIALOGUES.glob("*.txt")} == COUNTS
    dialogues = everything()
    taught = [
        reply for one in dialogues for reply, mark in zip(one.replies, one.marks, strict=True) if mark != "bad"
    ]  # bad ones are borrowed
    counts = Counter(" ".join(reply.lower().split()) for reply in taught)
    assert [reply for reply, count in counts.items() if count > 1] == []
    assert all(len(one.users) == len(one.replies) == len(one.marks) for one in dialogues)


def test_the_shipped_replies_fit_into_a_turn_of_the_small_model() -> None:
    odd = [reply for one in everything() for reply in one.replies if not 5 <= len(reply.split()) <= 40]
    assert odd == []
    words = [len(reply.split()) for name in ("simple", "simple_again") for one in collection(name) for reply in one.replies]
    assert max(words) <= 16 and 10 < sum(words) / len(words) < 11


def labelled_reply(**changes: Any) -> Labelled:
    values: dict[str, Any] = {"value": 1, "quality": frozenset(("coherent", "picks_up", "specific")), "trap": None, "style": "chatty"}
    return Labelled(situation="work/b", user="It sank.", before="", reply="That hurts.", acts=frozenset(), **values | changes)


def test_of_the_labelled_replies_those_that_serve_are_shown() -> None:
    assert serving([labelled_reply()]) == [Shown(("It sank.",), ("That hurts.",), ("good",))]
    others = [
        {"value": 0},
        {"quality": frozenset(("coherent", "picks_up"))},
        {"trap": "stacked"},
        {"style": "small_model"},
        {"style": "elderly"},
    ]
    assert serving([labelled_reply(**other) for other in others]) == []
    assert 2000 < len(serving(labelled())) < 4000


def test_the_shipped_dialogues_hold_good_and_other_replies() -> None:
    marks = {name: Counter(mark for one in collection(name) for mark in one.marks) for name in COUNTS}
    assert set(marks["scripted_users"]) == {"good", "mediocre", "bad"}
    assert 0.2 < marks["scripted_users"]["good"] / marks["scripted_users"].total() < 0.8
    assert set(marks["talking_users"]) == {"good"}
    assert set(marks["plain"]) == {"good", "bad"} and set(marks["simple"]) == set(marks["simple_again"]) == {"good", "mediocre"}
    assert all(0.7 < marks[name]["good"] / marks[name].total() < 0.95 for name in ("plain", "simple", "simple_again")), marks


def test_about_one_story_in_twelve_is_never_shown() -> None:
    for name in COUNTS:
        dialogues = collection(name)
        held, others = ([one.users[0] for one in dialogues if is_held_out(one) is kept] for kept in (True, False))
        assert 1 / 30 < len(held) / len(dialogues) < 1 / 6, name
        assert not set(held) & set(others)
