"""The labelled replies, the arithmetic of precision and recall, and that the detector reads as well as docs/act-detector.md says."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from rlver.components.domain.files import BadFile
from rlver.components.policy.tiny.supporters import phrases
from rlver.components.scoring.statistics import Interval
from rlver.components.users.scripted.effects import DIFFICULTIES
from rlver.components.users.scripted.reading import Reading, Sentence
from rlver.flows.cli import main
from rlver.tasks.studies.acts import detection as act_detection
from rlver.tasks.studies.acts.detection import (
    ACTS,
    EVERY,
    HURTS,
    KINDS,
    MEAN,
    NOTHING,
    POLITE,
    SERVES,
    Detection,
    LabelledReply,
    consequences,
    detection,
    labelled,
    load_labels,
    read_by_patterns,
    taken_by_scripted,
)

FEWEST = {"plain": {"serving": 15, "polite": 14, "harmful": 10}, "careful": {"serving": 15, "polite": 9, "harmful": 8}}
# Lower bounds, some points below what was measured, so that a detector may be improved and must not get worse.
HELD = {"plain": (0.65, 0.25), "careful": (0.74, 0.41)}


def row(reply: str, *acts: str, user: str = "My boss shouted at me.") -> LabelledReply:
    return LabelledReply(user, reply, frozenset(acts))


def by_act(rows: list[LabelledReply], samples: int = 200) -> dict[str, Detection]:
    return {one.act: one for one in detection(rows, read_by_patterns, samples, seed=7)}


# --- the labelled replies


def test_two_styles_cover_every_act() -> None:
    styles = labelled([])
    assert set(styles) == set(FEWEST)
    for style, rows in styles.items():
        counts = Counter(act for one in rows for act in one.acts)
        for kind, acts in KINDS.items():
            assert min(counts[act] for act in acts) >= FEWEST[style][kind], (style, kind)
        assert any(not one.acts for one in rows)
        assert len({one.reply for one in rows}) == len(rows) >= 250 and len({one.user for one in rows}) >= 60


def test_no_labelled_reply_is_from_the_phrase_book_or_from_what_the_patterns_were_tuned_on(repository_root: Path) -> None:
    tuned = YAML(typ="safe").load(
        (repository_root / "tests" / "components" / "users" / "scripted" / "natural_replies.yaml").read_text(encoding="utf-8")
    )
    replies = [one.reply for rows in labelled([]).values() for one in rows]
    assert not {one["reply"] for part in tuned.values() for one in part} & set(replies)
    said = "\n".join(replies)
    long_heads = [head for act in KINDS["serving"] for head in phrases()[act]["heads"] if len(head.split()) >= 6]
    assert long_heads and not [head for head in long_heads if head in said]


# --- the arithmetic


def test_precision_recall_and_f1_count_replies() -> None:
    rows = [
        row("It was not your fault.", "absolve"),
        row("It was not your fault.", "praise", user="Really?"),
        row("Milk boils over for everybody.", "absolve", user="And then?"),
        row("None of this is your fault.", "absolve", "comfort"),
    ]
    assert [read_by_patterns(one) for one in rows] == [{"absolve"}, {"absolve"}, set(), {"absolve"}]
    found = by_act(rows)
    absolve = found["absolve"]
    assert (absolve.labelled, absolve.found) == (3, 3)
    assert absolve.precision is not None and absolve.recall is not None and absolve.f1 is not None
    assert (absolve.precision.value, absolve.recall.value) == (2 / 3, 2 / 3)
    assert absolve.f1.value == pytest.approx(2 / 3)  # 2 right of 4 that either says: 2 x .5 / 1.5
    assert absolve.precision.ci95 == pytest.approx(Interval(0.2077, 0.9385), abs=1e-4)  # Wilson, 2 of 3
    assert found["praise"].precision is None and found["praise"].recall is not None and found["praise"].recall.value == 0
    every, mean = found[EVERY], found[MEAN]
    assert every.precision is not None and every.recall is not None and every.f1 is not None
    assert (every.labelled, every.found, every.precision.value, every.recall.value) == (5, 3, 2 / 3, 2 / 5)
    assert every.f1.value == pytest.approx(4 / 8) and every.f1.n == 3  # three user messages
    assert mean.precision is not None and mean.recall is not None
    assert (mean.precision.value, mean.recall.value) == pytest.approx((2 / 3, 2 / 9))  # recall of absolve, praise and comfort
    assert found["replies with no act"].found == 1 and found["replies with no act"].labelled == 0


def test_a_single_message_says_nothing_about_the_spread_and_no_act_gives_no_figures() -> None:
    every = by_act([row("It was not your fault.", "absolve"), row("Zebra.", "praise")])[EVERY]
    assert every.recall is not None and every.recall.value == 0.5 and every.recall.ci95 == Interval(0.0, 1.0)
    assert detection([row("Zebra.")], read_by_patterns, 10, seed=1) == []


def test_intervals_do_not_depend_on_the_order_of_the_rows() -> None:
    rows = labelled([])["plain"][:60]
    assert by_act(rows) == by_act(rows[::-1])


def test_replies_are_described_by_the_worst_they_do_and_taken_by_a_user_whose_need_is_unknown() -> None:
    rows = [
        row("It was not your fault.", "absolve"),  # may serve: +2
        row("It was your own fault.", "blame", "absolve"),  # -9
        row("That sounds hard.", "acknowledge"),  # polite, the first time: +1
        row("Zebras have stripes.", user="Hm."),  # empty talk: -5
        row("Birds have wings.", user="So?"),
    ]
    taken = {one.reply: one for one in consequences(rows, taken_by_scripted(DIFFICULTIES["vanilla"]), 50, seed=3)}
    assert {name: one.change.value for name, one in taken.items()} == {SERVES: 2, HURTS: -9, POLITE: 1, NOTHING: -5}
    assert {name: (one.rises.value, one.falls.value) for name, one in taken.items()} == {
        SERVES: (1, 0),
        HURTS: (0, 1),
        POLITE: (1, 0),
        NOTHING: (0, 1),
    }
    assert taken[NOTHING].rises.n == 2


# --- the detector


@pytest.mark.parametrize("style", HELD)
def test_the_detector_reads_no_worse_than_when_it_was_measured(style: str) -> None:
    every = by_act(labelled([])[style])[EVERY]
    assert every.precision is not None and every.recall is not None
    assert every.precision.value >= HELD[style][0] and every.recall.value >= HELD[style][1]


@pytest.mark.parametrize("breaks", ["deaf", "hears everything"])
def test_a_broken_detector_is_seen(breaks: str, monkeypatch: pytest.MonkeyPatch) -> None:
    heard = () if breaks == "deaf" else (Sentence("", (), tuple((act, "") for act in ACTS)),)
    other = Reading(heard, 9, True, "")
    monkeypatch.setattr(act_detection, "read_reply", lambda reply: other)
    for style, rows in labelled([]).items():
        every = by_act(rows)[EVERY]
        measured = [figure.value if figure else 0.0 for figure in (every.precision, every.recall)]
        assert any(value < least for value, least in zip(measured, HELD[style], strict=True))


def test_the_document_gives_the_figures_that_the_command_prints(repository_root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Compared without their intervals, whose last digit may hang on the version of numpy."""

    def figures(text: str) -> list[list[str]]:
        return [re.sub(r"\[[^\]]*\]", "", line).split() for line in text.splitlines() if line.strip()]

    assert main(["simulator", "acts", "--params", str(repository_root / "params.yaml")]) == 0
    printed = figures(capsys.readouterr().out)
    written = figures((repository_root / "docs" / "act-detector.md").read_text(encoding="utf-8"))
    assert len(printed) > 80 and not [line for line in printed if line not in written]


# --- the command and files of one's own


def test_labels_of_ones_own_are_measured_and_the_mistakes_listed(
    tmp_path: Path, repository_root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.yaml").write_text(
        "- {user: Hm., reply: It was not your fault., acts: [absolve]}\n- {user: Well., reply: Zebras have stripes., acts: [praise]}\n"
    )
    assert main(["simulator", "acts", str(tmp_path / "mine.yaml"), "--mistakes", "--params", str(repository_root / "params.yaml")]) == 0
    said = capsys.readouterr().out
    assert said.startswith("mine: 2 replies to 2 messages; 1 read without a mistake")
    assert "all styles" not in said and "mine: overlooked praise; invented -: Zebras have stripes." in said


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "expected a list of labelled replies"),
        ("plain: text", "expected a list of labelled replies"),
        ("- [1, 2", "not valid YAML"),
        ("- {user: a, reply: b}", "entry 1: expected user, reply and acts, got user, reply"),
        ("- hello", "entry 1: expected user, reply and acts, got 'hello'"),
        ("- {user: a, reply: b, acts: absolve}", "entry 1: user and reply must be texts, acts a list"),
        ("- {user: a, reply: b, acts: []}\n- {user: a, reply: b, acts: [hug]}", "entry 2: unknown act 'hug': choose from absolve"),
    ],
)
def test_a_bad_label_file_is_refused_with_the_entry(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text(content)
    with pytest.raises(BadFile, match=message):
        load_labels(tmp_path / "bad.yaml")
    with pytest.raises(BadFile, match="no such file"):
        load_labels(tmp_path / "none.yaml")


def test_two_files_of_one_name_are_refused(tmp_path: Path) -> None:
    files = [tmp_path / folder / "mine.yaml" for folder in ("a", "b")]
    for path in files:
        path.parent.mkdir()
        path.write_text("- {user: Hm., reply: It was not your fault., acts: [absolve]}\n")
    with pytest.raises(BadFile, match="two files have the same name"):
        labelled(files)
