"""The training log alone: replies that grow, repeat or narrow are alarms; a quiet log is clean; a short one says nothing."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest
from audit_talks import PARAMETERS

from rlver.components.domain.files import BadFile
from rlver.tasks.studies.audit.checks import log_checks, read_log


def rows(steps: int = 60, tokens: float = 1.0, repeats: float = 0.0, entropy: float = 1.0) -> list[dict[str, float]]:
    """A log whose values go from 15 tokens, 0.1 and 0.6 to what the factors (and the rise of repeats) say."""
    random = Random(3)
    return [
        {
            "step": step,
            "reply_tokens": 15 * tokens ** (step / steps) + random.gauss(0, 0.2),
            "repeat_rate": 0.1 + repeats * step / steps + random.gauss(0, 0.005),
            "entropy": 0.6 * entropy ** (step / steps) + random.gauss(0, 0.003),
        }
        for step in range(1, steps + 1)
    ]


@pytest.mark.parametrize(
    ("log", "alarms"),
    [
        (rows(), set()),
        (rows(tokens=4.0), {"growth_in_training"}),
        (rows(repeats=0.5), {"repeats_in_training"}),
        (rows(entropy=0.1), {"entropy_in_training"}),
    ],
)
def test_what_changes_over_a_training_alarms(log: list[dict[str, float]], alarms: set[str]) -> None:
    checks = log_checks(log, PARAMETERS)
    assert {check.name for check in checks if check.outcome == "alarm"} == alarms
    assert {check.outcome for check in checks if check.name not in alarms} == {"clean"}


def test_the_factor_is_that_between_the_two_ends() -> None:
    log = [{"step": step, "reply_tokens": 10.0 if step <= 5 else 30.0} for step in range(1, 11)]
    tokens, repeats, _ = log_checks([*log, *({**row, "step": row["step"] + 10, "reply_tokens": 30.0} for row in log)], PARAMETERS)
    assert tokens.value == pytest.approx(3.0)  # the first fifth of 20 steps says 10, the last 30
    assert repeats.outcome == "unknown" and "repeat_rate" in repeats.why


def test_a_log_of_few_steps_is_not_judged() -> None:
    assert {check.outcome for check in log_checks(rows(steps=10), PARAMETERS)} == {"unknown"}


@pytest.mark.parametrize(("zeros", "outcome"), [(12, "alarm"), (11, "alarm"), (1, "unknown")])
def test_an_entropy_that_ends_at_nothing_alarms_and_one_step_without_any_does_not(zeros: int, outcome: str) -> None:
    log = [{"step": step, "entropy": 0.0 if step > 60 - zeros else 2.0} for step in range(1, 61)]
    entropy = log_checks(log, PARAMETERS)[2]
    assert entropy.outcome == outcome and entropy.value is not None


def test_a_log_that_begins_with_nothing_is_not_said_to_be_short() -> None:
    log = [{"step": step, "entropy": float(step > 20), "reply_tokens": float(step > 20)} for step in range(1, 61)]
    tokens, _, entropy = log_checks(log, PARAMETERS)
    for check, column in ((tokens, "reply_tokens"), (entropy, "entropy")):
        assert check.outcome == "unknown" and check.why.endswith(f"not every value of {column} in these steps is above 0")


def test_no_log_is_not_a_short_log() -> None:
    assert all(check.outcome == "unknown" and check.why.endswith(": no training log") for check in log_checks(None, PARAMETERS))
    assert all("too few values" in check.why for check in log_checks([], PARAMETERS))


def test_of_a_step_logged_twice_the_later_row_counts(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ({"step": 2, "n": 1}, {"step": 1, "n": 3}, {"step": 2, "n": 5})))
    assert read_log(path) == [{"step": 1.0, "n": 3.0}, {"step": 2.0, "n": 5.0}]
    path.write_text('{"n": 1}\n')
    with pytest.raises(BadFile, match=r"train.jsonl:1: .*step"):
        read_log(path)
