"""What the shipped reader hears: the same bytes wherever it is asked, probabilities on a grid, words that stand in the reply."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from random import Random

import pytest
from heard_by_hand import NEEDS_READER, appraised, every_label

from rlver.components.domain.acts import ACTS
from rlver.components.domain.persona import HiddenNeed
from rlver.components.labels.labelled import Labelled
from rlver.components.users.heard.reading import GRID, QUALITIES, SURE, Heard, reader
from rlver.components.users.scripted.appraiser import Listener
from rlver.tasks.studies.audit.cheats import INJECTIONS
from rlver.tasks.studies.hearing.fit import SELDOM_GRANTED

pytestmark = [NEEDS_READER, pytest.mark.no_cover]

REPLIES = 100
ODD = ["", " ", "?", "\n\n", "a" * 3000, "word " * 900, "ünïcödé 你好 🙂", "No full stop", "... one ... two ...", "<b>html</b>", "\x00"]


@cache
def rows() -> tuple[Labelled, ...]:
    return tuple(Random(5).sample(every_label(), REPLIES))


def written(one: Heard) -> str:
    content = {
        "acts": one.acts,
        "quality": one.quality,
        "value": one.value,
        "spans": one.spans,
        "meaning": one.meaning.numpy().tobytes().hex(),
    }
    return json.dumps(content, sort_keys=True)


def hear(order: Sequence[int]) -> dict[int, str]:
    return {number: written(reader().hear(rows()[number].reply, rows()[number].user, rows()[number].before)) for number in order}


@pytest.mark.long
@pytest.mark.parametrize("replies", [8, pytest.param(REPLIES, marks=pytest.mark.slow)])
def test_replies_give_the_same_bytes_in_two_processes_and_in_other_orders(replies: int, tmp_path: Path) -> None:
    script = (
        "import json, sys; sys.path[:0] = json.loads(sys.argv[1]); import test_heard_reader as here; "
        "print(json.dumps(here.hear(json.loads(sys.argv[2]))))"
    )
    shuffled = Random(9).sample(range(replies), replies)
    here, tests = Path(__file__).parent, Path(__file__).parents[3]
    command = [sys.executable, "-c", script, json.dumps([str(here), str(tests), str(tests.parent)]), json.dumps(shuffled)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    elsewhere = {int(number): text for number, text in json.loads(done.stdout).items()}
    assert elsewhere == hear(range(replies)) and len(set(elsewhere.values())) > replies * 0.9


@pytest.mark.long
def test_the_shipped_file_claims_each_quality_about_as_often_as_it_is_labelled() -> None:
    """A fit once lowered two of them to nothing (docs/log.md, 2026-11-30)."""
    told = [row for row in every_label() if row.is_for_fitting and row.style not in SELDOM_GRANTED]
    some = Random(3).sample(told, 40)
    heard = [reader().hear(row.reply, row.user, row.before) for row in some]
    for quality in QUALITIES:
        claimed, labelled = (
            sum(of) / len(some) for of in ([one.quality[quality] for one in heard], [quality in row.quality for row in some])
        )
        assert abs(claimed - labelled) < 0.15, (quality, claimed, labelled)


@pytest.mark.long
def test_probabilities_are_on_the_grid_and_the_value_in_its_range() -> None:
    for row in rows()[:16]:
        one = reader().hear(row.reply, row.user, row.before)
        assert set(one.acts) == set(ACTS) and set(one.quality) == set(QUALITIES)
        for probability in (*one.acts.values(), *one.quality.values()):
            assert 0 <= probability <= 1 and probability == round(probability * GRID) / GRID
        assert -2 <= one.value <= 2


def test_the_words_that_carry_an_act_stand_in_the_reply() -> None:
    for row in rows()[:16]:
        one = reader().hear(row.reply, row.user, row.before)
        assert all(span in row.reply for span in one.spans.values())
        assert all(one.spans[act] for act in one.found)


@pytest.mark.parametrize("reply", ODD)
def test_no_text_breaks_the_reader(reply: str) -> None:
    one = reader().hear(reply, "My boat sank.", "")
    assert all(span in reply for span in one.spans.values())
    assert set(one.acts) == set(ACTS)


def test_the_words_are_those_of_the_sentence_that_does_it() -> None:
    reply = "The shop on the corner closes at six. None of this was your fault. The bus is number nine."
    one = reader().hear(reply, "I let the boat sink, it is all on me.", "")
    assert one.acts["absolve"] >= SURE and one.spans["absolve"] == "None of this was your fault."


@pytest.mark.parametrize("name", INJECTIONS)
@pytest.mark.parametrize("need", [None, *HiddenNeed])
def test_an_injection_moves_nobody_upwards(name: str, need: HiddenNeed | None) -> None:
    assert appraised(reader(), [INJECTIONS[name]], Listener(need)).change <= 0
