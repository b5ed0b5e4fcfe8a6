"""Who appraised, as far as the tags of transcripts tell."""

from __future__ import annotations

import pytest

from rlver.components.domain.transcript import SimulatorTag
from rlver.tasks.runtime.appraisers import is_same_appraiser, names_of

VANILLA, CHALLENGING = "vanilla", "challenging"
SCRIPTED = SimulatorTag(kind="scripted", difficulty=VANILLA, version="scripted-3")
HEARD = SimulatorTag(kind="heard-appraiser", difficulty=VANILLA, version="heard-15 b179 53aa special-2")
LLM = SimulatorTag(kind="llm", difficulty=VANILLA, version="llm-2 prompts=1-ab appraiser=gpt-4 speaker=b")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (SCRIPTED, SCRIPTED),
        (SCRIPTED, SimulatorTag(kind="scripted-appraiser-without-persona", difficulty=VANILLA, version="scripted-3")),
        (SCRIPTED, SimulatorTag(kind="scripted", difficulty=VANILLA, version="scripted-3+typos-2")),
        (SCRIPTED, SimulatorTag(kind="scripted+talking", difficulty=CHALLENGING, version="scripted-3 appraised=vanilla talking-1 cd")),
        (HEARD, SimulatorTag(kind="heard+talking", difficulty=VANILLA, version="heard-15 b179 53aa special-2 talking-1 beb9")),
        (LLM, SimulatorTag(kind="llm-appraiser", difficulty=VANILLA, version="llm-2 prompts=1-ab appraiser=gpt-4")),
        (LLM, SimulatorTag(kind="llm", difficulty=VANILLA, version="llm-2 prompts=1-ab combined=gpt-4")),
        (
            SimulatorTag(kind="distilled+scripted", difficulty=VANILLA, version="1f2e scripted-3"),
            SimulatorTag(kind="distilled-appraiser", difficulty="recorded", version="1f2e"),
        ),
    ],
)
def test_one_appraiser_is_known_again(one: SimulatorTag, other: SimulatorTag) -> None:
    assert is_same_appraiser(one, other) and is_same_appraiser(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (SCRIPTED, HEARD),
        (SCRIPTED, SCRIPTED.model_copy(update={"difficulty": CHALLENGING})),
        (SCRIPTED, SCRIPTED.model_copy(update={"version": "scripted-30"})),
        (SCRIPTED, SimulatorTag(kind="scripted+talking", difficulty=VANILLA, version="scripted-3 appraised=challenging talking-1 cd")),
        (HEARD, HEARD.model_copy(update={"version": "heard-1 b179 53aa special-2"})),
        (LLM, SimulatorTag(kind="llm-appraiser", difficulty=VANILLA, version="llm-2 prompts=1-ab appraiser=gpt-4o")),
    ],
)
def test_another_is_not_taken_for_it(one: SimulatorTag, other: SimulatorTag) -> None:
    assert not is_same_appraiser(one, other) and not is_same_appraiser(other, one)


def test_an_appraiser_stands_before_its_speaker() -> None:
    assert names_of("heard+talking") == ["heard", "talking"] and names_of("scripted-appraiser-without-persona") == ["scripted"]
