"""The dialogues of the warm-up: how their file is read, and what the one that is shipped holds."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from rlver.components.domain.files import BadFile
from rlver.components.domain.persona import HiddenNeed
from rlver.components.labels.warmup import DIALOGUES, Shown, collection, is_held_out, shown

GOOD = "# one\nU: I lost it.\nA: [good] That hurts.\nU: Yes.\nA: [mediocre] Cheer up.\n\n# two\nU: Hello.\nA: [mediocre] Hello to you.\n"


COUNTS = {"simple": 1149}
SHORT = {"first_plain": 1890, "hints_plain": 2703, "short_other_hints": 1277, "stories_plain": 2760}
COUNTS |= SHORT
MEAN_WORDS = {"stories_plain": (4, 4.5), "hints_plain": (4, 4.5)}
FIRST = "first_plain"  # first replies alone, all of them good


def everything() -> list[Shown]:
    return [one for name in COUNTS for one in collection(name)]


def plain(reply: str) -> str:
    return " ".join(reply.lower().split())


def test_a_collection_that_there_is_not_is_named_with_those_that_there_are() -> None:
    with pytest.raises(
        ValueError,
        match="no collection 'phrase_book', only first_plain, hints_plain, short_other_hints, simple, stories_plain",
    ):
        collection("phrase_book")


def written(folder: Path, text: str) -> Path:
    (folder / "shown.txt").write_text(text, encoding="utf-8")
    return folder / "shown.txt"


def test_dialogues_are_read_in_their_order(tmp_path: Path) -> None:
    first, second = shown(written(tmp_path, GOOD))
    assert first == Shown(("I lost it.", "Yes."), ("That hurts.", "Cheer up."), ("good", "mediocre"), "one")
    assert second == Shown(("Hello.",), ("Hello to you.",), ("mediocre",), "two")
    assert shown(written(tmp_path, GOOD.replace("#", "#\n#"))) == [first, second], "a dialogue without words is none"
    assert shown(written(tmp_path, "")) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("A: [good] That hurts.\n", "line 1: expected U: and A:"),
        ("U: One.\nU: Two.\n", "line 2: expected U: and A:"),
        ("U: One.\nA: [good] Yes.\nA: [good] Yes.\n", "line 3: expected"),
        ("U: One.\nA: [bad] Yes.\n", "line 2: expected"),
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


def test_the_shipped_dialogues_are_as_many_as_is_said_and_no_longer_reply_is_there_twice() -> None:
    assert {path.stem: len(collection(path.stem)) for path in DIALOGUES.glob("*.txt")} == COUNTS
    counts = Counter(plain(reply) for name in COUNTS if name not in SHORT for one in collection(name) for reply in one.replies)
    assert [reply for reply, count in counts.items() if count > 1] == []
    assert all(len(one.users) == len(one.replies) == len(one.marks) for one in everything())


def test_the_short_replies_are_mostly_different_and_never_twice_in_a_dialogue() -> None:
    for name in SHORT:
        dialogues = collection(name)
        counts = Counter(plain(reply) for one in dialogues for reply in one.replies)
        assert counts.most_common(1)[0][1] <= 25 and len(counts) > 0.75 * counts.total(), name
        assert all(len({plain(reply) for reply in one.replies}) == len(one.replies) for one in dialogues), name


def test_the_shipped_replies_fit_into_a_turn_of_the_small_model() -> None:
    words = {name: [len(reply.split()) for one in collection(name) for reply in one.replies] for name in COUNTS}
    others = [count for name, counts in words.items() if name not in SHORT for count in counts]
    assert min(others) >= 5 and max(others) <= 16 and 10 < sum(others) / len(others) < 11
    for name in SHORT:
        mean, (least, most) = sum(words[name]) / len(words[name]), MEAN_WORDS.get(name, (5, 6))
        longest = 6 if name.endswith("plain") else 8
        assert min(words[name]) >= 3 and max(words[name]) <= longest and least < mean < most, name


def test_the_shipped_dialogues_are_with_users_of_every_need() -> None:
    for name in COUNTS:
        counts = Counter(one.need for one in collection(name))
        assert counts.keys() == set(HiddenNeed) and max(counts.values()) < 1.2 * min(counts.values()), (name, counts)


def test_the_shipped_dialogues_hold_good_and_other_replies() -> None:
    for name in COUNTS:
        marks = Counter(mark for one in collection(name) for mark in one.marks)
        if name == FIRST:
            assert set(marks) == {"good"} and all(len(one.users) == 1 for one in collection(name))
            continue
        assert set(marks) == {"good", "mediocre"} and 0.7 < marks["good"] / marks.total() < 0.95, (name, marks)


def test_about_one_story_in_twelve_is_never_shown() -> None:
    for name in COUNTS:
        dialogues = collection(name)
        held, others = ([one.users[0] for one in dialogues if is_held_out(one) is kept] for kept in (True, False))
        assert 1 / 30 < len(held) / len(dialogues) < 1 / 6, name
        assert not set(held) & set(others)


def test_every_story_is_another_one() -> None:
    stories = collection("stories_plain")
    messages = Counter(plain(user) for one in stories for user in one.users)
    assert messages.most_common(1)[0][1] == 1
    assert {len(one.users) for one in stories} == {4, 5}
