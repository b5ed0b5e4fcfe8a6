"""Ratings beside the change of the emotion: the figures on ratings made by hand, and what is shipped."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import cast

import pytest
from heard_by_hand import ByHand, every_label, heard
from scipy.stats import spearmanr

from rlver.components.domain.files import BadFile
from rlver.components.users.heard.reading import Reader
from rlver.components.users.scripted.effects import DIFFICULTIES
from rlver.tasks.studies.hearing.listening import Listening
from rlver.tasks.studies.hearing.rated import FOLDER, KINDS, rank_correlation, rated_report, read_rated

HELPED, HURT = "That was brave of you to say.", "Why do you even ask?"


def write(folder: Path, name: str, conversations: list[dict[str, object]]) -> None:
    (folder / f"{name}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in conversations), encoding="utf-8")


def test_the_rank_correlation_is_scipys_and_its_interval_is_over_clusters() -> None:
    pairs = [(f"post {number // 3}", float(number % 7), float((number * 5) % 4)) for number in range(60)]
    found = rank_correlation(pairs, 300, 1)
    assert found is not None
    assert found.value == pytest.approx(spearmanr([one for _, one, _ in pairs], [one for _, _, one in pairs])[0])
    assert found.n == 20 and found.ci95.low < found.value < found.ci95.high
    assert rank_correlation([("a", 1, 1), ("b", 1, 2)], 10, 1) is None


def test_each_kind_is_measured_on_its_own_ratings(tmp_path: Path) -> None:
    def turn(reply: str, rating: int | None = None, user: str = "I told them.") -> dict[str, object]:
        return {"user": user, "reply": reply} | ({} if rating is None else {"rating": rating})

    write(
        tmp_path,
        "posts",
        [{"turns": [turn(reply, rating, f"I told {n}.")]} for n in range(6) for reply, rating in ((HELPED, 4), (HURT, 0))],
    )
    write(tmp_path, "chats", [{"turns": [turn(HURT, 5), turn(HELPED, 1)]} for _ in range(6)])
    write(
        tmp_path,
        "sessions",
        [{"about": f"{n}", "is_good": good, "turns": [turn(HELPED if good else HURT)]} for n in range(6) for good in (True, False)],
    )
    reader = ByHand({HELPED: heard({"praise": 1}, value=2), HURT: heard({"blame": 1}, value=-2)})
    report = rated_report(Listening(cast(Reader, reader), DIFFICULTIES["vanilla"]), 200, 1, tmp_path)
    posts, chats, sessions = (
        next(line.split("  ") for line in report.splitlines() if of in line and "heard" in line) for of in ("posts", "chats", "sessions")
    )
    found = [[cell.strip().split(" ")[0] for cell in line if cell.strip()][2:] for line in (posts, chats, sessions)]
    assert found == [["12", "1.00", "1.00"], ["12", "-1.00", "0.00"], ["12", "-", "1.00"]]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({}, "expected turns, each with user and reply"),
        ({"turns": []}, "expected turns, each with user and reply"),
        ({"turns": [{"user": "I told them."}]}, "expected turns, each with user and reply"),
        ({"turns": [{"user": "I", "reply": "O", "rating": 1}, {"user": "I", "reply": "O"}]}, "1 of 2 turns are rated"),
    ],
)
def test_a_bad_row_is_named(tmp_path: Path, row: dict[str, object], message: str) -> None:
    write(tmp_path, "posts", [{"turns": [{"user": "I", "reply": "O"}]}, row])
    with pytest.raises(BadFile, match=rf"posts\.jsonl:2: {message}"):
        read_rated(tmp_path / "posts.jsonl")


def test_chats_that_begin_alike_are_no_cluster_and_replies_to_one_post_are(tmp_path: Path) -> None:
    turn = {"user": "hi", "reply": "hello"}
    write(tmp_path, "posts", [{"turns": turns} for turns in ([turn], [turn], [turn, turn], [turn, turn])])
    first, second, chat, other = (row.about for row in read_rated(tmp_path / "posts.jsonl"))
    assert first == second and len({first, chat, other}) == 3


def test_the_shipped_ratings_are_varied_and_none_of_them_is_fitted() -> None:
    fitted = {row.reply for row in every_label()} | {row.user for row in every_label()}
    for kind in KINDS:
        rows = read_rated(FOLDER / f"{kind.file}.jsonl")
        assert not {exchange.reply for row in rows for exchange in row.exchanges if len(exchange.reply) > 40} & fitted
        if kind.good is None:
            assert Counter(row.is_good for row in rows) == {True: 20, False: 20} and len({row.about for row in rows}) == 20
        else:
            given = Counter(rating for row in rows for rating in row.ratings)
            assert sum(given.values()) > 300 and len(given) >= 5 and max(given.values()) < 0.5 * sum(given.values())
            assert all(len(row.ratings) == len(row.exchanges) for row in rows)
