"""Agreement of two labellings: known values by hand, the file, and the shipped second pass."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from heard_by_hand import every_label

from rlver.components.domain.files import BadFile
from rlver.components.labels.labelled import NEXT, Labelled, labelled
from rlver.tasks.studies.hearing.agreement import (
    HEADER,
    Twice,
    kappa,
    mean_kappa,
    of_acts,
    of_qualities,
    of_value,
    read_second,
    reply_hash,
    spearman,
)


def row(reply: str, acts: str = "", value: int = 0, quality: str = "", user: str = "It sank.") -> Labelled:
    return Labelled("chatty", "work/boat", user, "", reply, frozenset(acts.split()), value, frozenset(quality.split()), None)


def twice(first: str, second: str, number: int, values: tuple[int, int] = (0, 0)) -> Twice:
    return Twice(row(f"Reply {number}.", first, values[0], user=f"Message {number}."), frozenset(second.split()), values[1], frozenset())


def one(table: list[list[float]]) -> np.ndarray:
    return np.array([table], dtype=float)


def test_kappa_of_known_tables() -> None:
    assert kappa(one([[20, 5], [10, 15]]))[0] == pytest.approx(0.4)  # .7 observed, .5 by chance
    assert kappa(one([[10, 0], [0, 10]]))[0] == 1
    assert kappa(one([[5, 5], [5, 5]]))[0] == 0
    assert kappa(one([[0, 10], [10, 0]]))[0] == -1
    assert np.isnan(kappa(one([[7, 0], [0, 0]]))[0]), "both always say the same: chance cannot err"


def test_weighted_kappa_charges_by_the_square_of_the_distance() -> None:
    near, far = one([[5, 1, 0], [0, 5, 0], [0, 0, 5]]), one([[5, 0, 1], [0, 5, 0], [0, 0, 5]])
    # one of 16 is off; by chance, of margins (6, 5, 5) and (5, 6, 5): (116 + 4 x 55) / 16; of (6, 5, 5) and (5, 5, 6): (110 + 4 x 61) / 16
    assert kappa(near)[0] == pytest.approx(1 - 1 / (336 / 16))
    assert kappa(far)[0] == pytest.approx(1 - 4 / (354 / 16))


def test_rank_correlation_of_known_tables() -> None:
    assert spearman(one([[3, 0, 0], [0, 3, 0], [0, 0, 3]]))[0] == pytest.approx(1)
    assert spearman(one([[0, 0, 3], [0, 3, 0], [3, 0, 0]]))[0] == pytest.approx(-1)
    # (1, 2), (2, 1), (3, 3) without ties: 1 - 6 x 2 / (3 x 8)
    assert spearman(one([[0, 1, 0], [1, 0, 0], [0, 0, 1]]))[0] == pytest.approx(0.5)
    assert np.isnan(spearman(one([[4, 1], [0, 0]]))[0]), "one side does not vary"


def test_acts_are_counted_on_both_sides() -> None:
    rows = [twice("absolve praise", "absolve", 1), twice("absolve", "", 2), twice("", "praise", 3), twice("", "", 4)]
    of = {agreement.label: agreement for agreement in of_acts(rows, 50, seed=1)}
    absolve, praise = of["absolve"], of["praise"]
    assert (absolve.first, absolve.second, absolve.both) == (2, 1, 1) and (praise.first, praise.second, praise.both) == (1, 1, 0)
    assert absolve.kappa is not None and absolve.kappa.value == pytest.approx(0.5) and absolve.kappa.n == 4
    assert praise.kappa is not None and praise.kappa.value == pytest.approx(-1 / 3)
    assert of["blame"].kappa is None
    assert mean_kappa(list(of.values())) == pytest.approx((0.5 - 1 / 3) / 2)


def test_values_agree_exactly_by_side_and_in_order() -> None:
    rows = [twice("", "", number, values) for number, values in enumerate([(2, 2), (1, 2), (0, 0), (-1, 0), (-2, -2)])]
    of = of_value(rows, 50, seed=1)
    assert (of.same, of.same_side) == (3 / 5, 4 / 5)
    assert of.weighted_kappa is not None and of.rank_correlation is not None
    # squares of differences 0 1 0 1 0: .4; by chance the mean over all 25 pairs of values: 2 + 2.24 + (0 - .4)^2
    assert of.weighted_kappa.value == pytest.approx(1 - 0.4 / 4.4)
    assert of.rank_correlation.value == pytest.approx(9 / np.sqrt(10 * 9))
    assert of.weighted_kappa.ci95.low <= of.weighted_kappa.value <= of.weighted_kappa.ci95.high


# --- the file


def write(folder: Path, *lines: str, head: str = HEADER) -> Path:
    path = folder / "second.tsv"
    path.write_text("\n".join([head, *lines]) + "\n")
    return path


def test_the_second_labels_find_their_reply(tmp_path: Path) -> None:
    known = row("Old boats sink.", "absolve", 2, "specific")
    (found,) = read_second(
        [known, row("Hm.")], write(tmp_path, f"chatty\t{reply_hash(known.user, 'Old boats sink.')}\t[absolve, comfort] v=+1 q=SH")
    )
    assert found == Twice(known, frozenset({"absolve", "comfort"}), 1, frozenset({"specific", "sincere"}))


GOOD = f"chatty\t{reply_hash(row('Hm.').user, 'Hm.')}\t[] v=0 q=-"


@pytest.mark.parametrize(
    ("lines", "number", "message"),
    [
        ([GOOD, GOOD], 3, "stands here twice"),
        ([GOOD.replace("chatty", "slang")], 2, "no labelled reply of style 'slang'"),
        ([GOOD.replace("[]", "[hug]")], 2, "with known acts"),
        ([GOOD.replace("v=0", "v=5")], 2, "expected style, hash and"),
        (["chatty"], 2, "expected style, hash and"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, lines: list[str], number: int, message: str) -> None:
    with pytest.raises(BadFile, match=rf"second\.tsv: line {number}: .*{message}"):
        read_second([row("Hm.")], write(tmp_path, *lines))


def test_a_file_without_its_head_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="line 1: expected 'style"):
        read_second([row("Hm.")], write(tmp_path, GOOD, head="chatty"))


# --- the shipped one


def test_the_second_pass_covers_a_thousand_replies_and_agrees_as_the_document_says() -> None:
    rows = read_second([*every_label(), *labelled(NEXT)])
    assert len(rows) >= 1_000
    acts, qualities = of_acts(rows, 20, seed=1), of_qualities(rows, 20, seed=1)
    assert mean_kappa(acts) > 0.8
    assert min(one.kappa.value for one in acts if one.kappa) > 0.5
    assert {one.label for one in qualities if one.kappa and one.kappa.value < 0.5} <= {"coherent"}, (
        "known: the passes draw this line elsewhere"
    )
