"""From the rows of an answer file to what counts: one judgement for each person and pair, or person and talk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from components.evaluation.blind.answers import Choice, Preference, Row, Study, TalkBegun, Verdict
from components.files import BadFile

WORTH: dict[Preference, float] = {"a": 0.0, "tie": 0.5, "b": 1.0}


@dataclass(frozen=True)
class Judged:
    """The study of a file, the last answer of every person to every pair, and every judged talk with its verdict."""

    study: Study | None
    choices: tuple[Choice, ...]
    verdicts: tuple[tuple[TalkBegun, Verdict], ...]
    revised: int  # answers that a later one replaced


def judged(rows: Sequence[Row]) -> Judged:
    """Raises BadFile when an answer is about a pair or a talk that the file does not have."""
    study = next((row for row in rows if isinstance(row, Study)), None)
    known = {pair.pair_id for pair in study.pairs} if study else set()
    talks = {row.talk_id: row for row in rows if isinstance(row, TalkBegun)}
    choices: dict[tuple[str, str], Choice] = {}
    verdicts: dict[str, Verdict] = {}
    seen: set[tuple[object, ...]] = set()
    revised = 0
    for row in rows:
        if not isinstance(row, Choice | Verdict) or row.content in seen:
            continue
        seen.add(row.content)
        if isinstance(row, Choice):
            if row.pair_id not in known:
                raise BadFile(f"an answer of {row.rater} is about the pair {row.pair_id}, which is not in the file's first line")
            revised += (row.rater, row.pair_id) in choices
            choices[row.rater, row.pair_id] = row
        else:
            if row.talk_id not in talks:
                raise BadFile(f"an answer of {row.rater} is about the talk {row.talk_id}, which is not in the file")
            revised += row.talk_id in verdicts
            verdicts[row.talk_id] = row
    return Judged(study, tuple(choices.values()), tuple((talks[talk], verdict) for talk, verdict in verdicts.items()), revised)
