"""The labelled replies: the format, and what the shipped ones hold."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from heard_by_hand import AS_PEOPLE_TYPE

from rlver.components.domain.acts import ACTS
from rlver.components.domain.files import BadFile
from rlver.components.labels.labelled import FOLDER, NEXT, STRICT_STYLES, TRAPS, UNFITTED_STYLES, Labelled, labelled, read_style
from rlver.components.users.scripted.patterns import SERVING
from rlver.tasks.studies.acts.detection import labelled as old_test_set
from rlver.tasks.studies.hearing.agreement import DIGITS, reply_hash

HEAD = "@ work/boat\nU: It sank.\n"
OF_ONE_SUBJECT = {"sense"}  # replies without sense beside good ones: a test, and short
SERVING_ONLY = "plain_spoken"  # acts that serve, in plain words, and replies that lie under another message
# Replies of the real small model and of its warm-up: what they do is what there is
AS_THEY_WERE = {
    "model_raw",
    "model_warm",
    "model_finding_out",
    "model_trained",
    "model_warmups",
    "model_apart",
    "model_hints",
    "model_other_hints",
    "model_own",
    "model_short",
    "supporter",
    "written",
    "written_beside",
    "written_short",
    "simple",
    "simple_apart",
}
SAID_TO_SEVERAL = {
    "model_hints",
    "model_other_hints",
    "model_own",
    "model_short",
    "written_short",
}  # what is short, or of a small model, comes again
# Those of acts that are heard badly, with domains of their own
OF_SOME_ACTS = {"chatbots", "coaches", "colleagues", "forum", "helpline", "neighbours", "quiet", "siblings"}
DOMAINS = 75
OTHER_SITUATIONS = {"talking", "warmup", "sense", "plain"}  # messages of the simulated users, and those of a style that only asks for sense


@cache
def shipped() -> tuple[Labelled, ...]:
    return tuple(labelled())


def plain(text: str) -> str:
    return re.sub(r"\W+", " ", text.lower()).strip()


# --- the format


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "chatty.txt"
    path.write_text(
        "@ work/boat\nU: It sank.\nB: user: I had a boat. | reply: Nice. | user: It was old.\n"
        "R [absolve, comfort] v=+2 q=SPCH trap=subtle: Old boats sink.\n\nR [] v=0 q=-: Hm.\nU: And now?\nR [ask_fact] v=-1 q=C: Where?\n"
    )
    first, second, third = read_style(path)
    assert first == Labelled(
        "chatty", "work/boat", "It sank.", "I had a boat. It was old.", "Old boats sink.", frozenset({"absolve", "comfort"}), 2,
        frozenset({"specific", "picks_up", "coherent", "sincere"}), "subtle",
    )  # fmt: skip
    assert (second.acts, second.value, second.quality, second.trap) == (frozenset(), 0, frozenset(), None)
    assert (third.user, third.before, third.value) == ("And now?", "", -1), "what was said before belongs to one message"


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("U: It sank.\nR [] v=0 q=-: Hm.\n", 2, "after a situation and a message"),
        ("@ work/boat\nR [] v=0 q=-: Hm.\n", 2, "after a situation and a message"),
        (HEAD + "R [] v=3 q=-: Hm.\n", 3, "expected @, U:, B: or R"),
        (HEAD + "R [] v=0 q=X: Hm.\n", 3, "expected @, U:, B: or R"),
        (HEAD + "R [] v=0 q=-:\n", 3, "expected @, U:, B: or R"),
        (HEAD + "R [hug] v=0 q=-: Hm.\n", 3, "unknown label 'hug': acts are absolve"),
        (HEAD + "R [] v=0 q=- trap=hole: Hm.\n", 3, "unknown label 'hole'"),
        (HEAD + "\n\nAnd so on\n", 5, "expected @, U:, B: or R"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, text: str, line: int, message: str) -> None:
    path = tmp_path / "bad.txt"
    path.write_text(text)
    with pytest.raises(BadFile, match=rf"bad\.txt: line {line}: .*{re.escape(message)}"):
        list(read_style(path))


def test_a_whole_style_and_a_tenth_of_the_situations_are_kept_apart() -> None:
    def row(style: str, situation: str) -> Labelled:
        return Labelled(style, situation, "U", "", "R", frozenset(), 0, frozenset(), None)

    assert not any(row("elderly", f"work/{number}").is_for_fitting for number in range(100))
    apart = [not row("chatty", f"work/{number}").is_for_fitting for number in range(1000)]
    assert 60 < sum(apart) < 140
    assert apart == [not row("slang", f"work/{number}").is_for_fitting for number in range(1000)], "a situation is apart in every style"


# --- those that come along


def test_every_file_parses_and_has_its_share() -> None:
    styles = Counter(row.style for row in shipped())
    assert set(styles) == {path.stem for path in FOLDER.glob("*.txt")} and len(styles) >= 19
    assert sum(styles.values()) >= 8_600 and min(styles[style] for style in styles.keys() - OF_ONE_SUBJECT) >= 160
    assert min(styles.values()) >= 100


def test_what_was_written_for_acts_heard_badly_answers_messages_of_its_own() -> None:
    own, others = ({row.user for row in shipped() if (row.style in OF_SOME_ACTS) is here} for here in (True, False))
    assert len(own) == 672 and not own & others


def test_what_waits_for_the_next_fit_stands_nowhere_else() -> None:
    assert not {(row.user, row.reply) for row in labelled(NEXT)} & {(row.user, row.reply) for row in shipped()}


def test_every_act_has_300_replies() -> None:
    counts = Counter(act for row in shipped() for act in row.acts)
    assert min(counts[act] for act in ACTS) >= 300, counts


def test_every_written_style_does_every_act_ten_times_and_sometimes_none() -> None:
    for style in {row.style for row in shipped()} - {*AS_THEY_WERE, *OF_ONE_SUBJECT, *OF_SOME_ACTS, *AS_PEOPLE_TYPE, SERVING_ONLY}:
        counts = Counter(act for row in shipped() if row.style == style for act in row.acts)
        assert min(counts[act] for act in ACTS) >= 10, style
        assert any(not row.acts for row in shipped() if row.style == style)


def test_values_traps_and_domains_are_spread() -> None:
    rows = [row for row in shipped() if row.style != SERVING_ONLY]
    assert min(Counter(row.value for row in rows).values()) > 0.1 * len(rows)
    assert set(TRAPS) == {row.trap for row in rows} - {None}
    assert len({row.situation.split("/")[0] for row in shipped() if row.style not in AS_PEOPLE_TYPE} - OTHER_SITUATIONS) == DOMAINS
    with_care = [row for row in rows if row.style not in AS_PEOPLE_TYPE]
    assert sum(row.trap is not None for row in with_care) > 0.35 * len(with_care)


def test_the_plain_style_does_each_act_that_serves_and_often_none() -> None:
    rows = [row for row in shipped() if row.style == SERVING_ONLY]
    counts = Counter(act for row in rows for act in row.acts)
    assert min(counts[act] for act in SERVING) >= 140, counts
    assert sum(not row.acts and row.value < 0 for row in rows) > 0.2 * len(rows), "replies to somebody else"


def test_no_reply_stands_twice_and_no_hash_is_of_two() -> None:
    written = [row for row in shipped() if row.style not in SAID_TO_SEVERAL]
    assert len({row.reply for row in shipped()}) == len(shipped()) - 133 and len({row.reply for row in written}) == len(written) - 15
    twice = [one for one, times in Counter((row.style, row.reply) for row in written).items() if times > 1]
    assert twice == [("spoken", "Okay.")] and DIGITS == 16
    assert len({(row.style, reply_hash(row.user, row.reply)) for row in written}) == len(
        {(row.style, row.user, row.reply) for row in written}
    )
    again = [text for text, times in Counter(plain(row.reply) for row in written).items() if times > 1]
    assert len(again) <= 40, again  # proverbs, condolences, questions and answers of a few words


def test_what_is_read_strictly_is_told_from_the_rest_and_a_part_is_kept() -> None:
    strict = [row for row in shipped() if row.style in STRICT_STYLES and row.style not in UNFITTED_STYLES]
    of_sense = [row for row in strict if row.is_for_strict_fitting]
    assert not any(row.is_for_fitting for row in strict) and 0.8 < len(of_sense) / len(strict) < 0.95
    assert not {row.situation for row in of_sense} & {row.situation for row in strict if not row.is_for_strict_fitting}


def test_nothing_that_is_measured_was_fitted() -> None:
    fitted, apart = ([row for row in shipped() if row.is_for_fitting is kept] for kept in (True, False))
    assert not {row.situation for row in apart if row.style not in (*UNFITTED_STYLES, *STRICT_STYLES)} & {row.situation for row in fitted}
    both = {plain(row.reply) for row in apart} & {plain(row.reply) for row in fitted}
    assert both <= {"earplugs", "have you tried talking to him", "how long were you together", "hugs", "same"}, "each under two messages"
    assert len(apart) >= 700 and sum(row.style == "elderly" for row in apart) == 300
    old = [row for rows in old_test_set([]).values() for row in rows]
    assert {plain(row.reply) for row in old} & {plain(row.reply) for row in shipped()} == {"ok"}
    assert not {plain(row.user) for row in old} & {plain(row.user) for row in shipped()}
