"""The report for readers: Markdown, every number with its interval, and beside it what it cannot say."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

from rlver.components.report.tables import plain_table
from rlver.tasks.runtime.brackets import shown
from rlver.tasks.studies.blind.agreement import RaterAgreement
from rlver.tasks.studies.blind.report import Compared, EmotionAgreement, HumanReport, Preferred, Rater, Talked

_FEW_RATERS = 5
_percent, _number = (partial(shown, form=form, none="undefined") for form in (".0%", "+.2f"))


def markdown(report: HumanReport) -> str:
    parts = ["# Blind human comparison"]
    if report.compared:
        parts += _of_pairs(report.compared)
    for talked in report.talked:
        parts += _of_talks(talked)
    if report.revised:
        parts.append(f"{report.revised} answers were changed afterwards; the last one counts.")
    return "\n\n".join(parts) + "\n"


def _of_pairs(of: Compared) -> Iterator[str]:
    raters = len(of.raters)
    yield (
        f"a = {of.a}, b = {of.b}; {of.preferred.judgements} judgements of {of.pairs} pairs of dialogues by {_people(raters)}, "
        f"{of.preferred.win_rate.n} personas; simulated user: {of.simulator}"
    )
    yield _wins(of.preferred, raters)
    yield (
        "A tie counts half. 95% intervals in brackets: personas and people resampled together, and never narrower than Agresti and Min's "
        "over personas."
        + (
            f" As many answers find a win rate that is {of.detectable:.1%} away from 50% with 80% power."
            if of.detectable is not None and of.detectable <= 0.5
            else ""
        )
    )
    if raters == 1:
        yield "One person: the interval is over personas alone and says nothing about other people."
    elif raters < _FEW_RATERS:
        yield f"{raters} people: how much others would differ is known roughly."
    yield "## People"
    header = ("person", "judgements", "b wins [95% CI]", "ties", "left chosen [95% CI]", "confidence (1-3)", "seconds (median)")
    yield plain_table(header, map(_rater, of.raters))
    if of.left_rate:
        yield f"The left side was chosen {_percent(of.left_rate)}; sides are random, so an interval without 50% means that places were judged."
    yield "## Agreement between people"
    yield _agreement(of.agreement)
    yield "## People and the simulator's emotion"
    if of.appraiser != of.simulator:
        yield f"The emotions are those of another appraiser: {of.appraiser}"
    yield _emotion(of.emotion, of.pairs)


def _of_talks(of: Talked) -> Iterator[str]:
    yield "## Talks with two hidden models"
    yield f"a = {of.a}, b = {of.b}; {of.preferred.judgements} talks, {_people(of.raters)}"
    yield f"{_wins(of.preferred, of.raters)}; the interval is over {'the talks of one person' if of.raters == 1 else 'people'}"
    gone = of.silence.left_out
    left_out = f"; {gone} talks in which a side never replied are left out" if gone else ""
    yield f"Replies that never came: {of.silence.failed_a} of a, {of.silence.failed_b} of b{left_out}."


def _people(raters: int) -> str:
    return "1 person" if raters == 1 else f"{raters} people"


def _wins(of: Preferred, raters: int) -> str:
    low, high = of.win_rate.ci95
    who = "This person prefers" if raters == 1 else "People prefer"
    verdict = f"{who} b." if low > 0.5 else f"{who} a." if high < 0.5 else "No preference is shown."
    return f"**{verdict}** b wins {_percent(of.win_rate)} (b {of.b}, tie {of.tie}, a {of.a})"


def _rater(one: Rater) -> tuple[object, ...]:
    seconds = "–" if one.seconds is None else f"{one.seconds:.0f}"
    wins, left = _percent(one.preferred.win_rate), _percent(one.left_rate)
    return _cell(one.rater), one.preferred.judgements, wins, one.preferred.tie, left, f"{one.confidence:.1f}", seconds


def _agreement(of: RaterAgreement | None) -> str:
    if of is None:
        return "No pair was judged by two people, so nothing is known."
    return (
        f"Over the {of.pairs} pairs that at least two of {of.raters} people judged:\n\n"
        f"- the same answer (a, tie or b): {_percent(of.raw)}\n"
        f"- the same side, where both chose one: {_percent(of.direction)}\n"
        f"- Krippendorff's alpha (nominal; 1 perfect, 0 chance): {_number(of.alpha)}"
    )


def _emotion(of: EmotionAgreement | None, pairs: int) -> str:
    if of is None:
        return "The transcripts have no final emotions on both sides, so nothing can be compared."
    left_out = f" ({pairs - of.pairs} more have no final emotion on a side)" if of.pairs < pairs else ""
    return (
        f"Over {of.pairs} judged pairs{left_out}; emotion difference: final emotion of b minus a:\n\n"
        f"- people lean to the side with the better emotion: {_percent(of.sign)} of the {of.sign_pairs} pairs where both differ\n"
        f"- point-biserial correlation of the side they lean to with the emotion difference: {_number(of.point_biserial)}\n"
        f"- Spearman correlation of preference × confidence with the emotion difference: {_number(of.spearman)}"
    )


def _cell(text: str) -> str:
    """What somebody calls themselves, as text: no link, picture or tag of Markdown; the table keeps it one cell."""
    return re.sub(r"[\\<\[`]", r"\\\g<0>", text)
