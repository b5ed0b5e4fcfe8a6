"""The sealed test shares nothing with what is trained and tested on every day, and one module alone reads it."""

from __future__ import annotations

import re
from pathlib import Path

from rlver.components.domain.persona import HiddenNeed
from rlver.components.domain.protocols import now
from rlver.components.personas.generator import compose_personas
from rlver.components.personas.library import load_library
from rlver.components.personas.needs import stated_need
from rlver.components.personas.schema import validate_personas
from rlver.components.personas.sealed import compose_sealed, hints
from rlver.components.personas.split import overlap
from rlver.components.users.talking.speaker import TalkingSpeaker
from rlver.components.users.talking.wordings import cues
from rlver.components.users.talking.wordings import hints as hints_of

ROOT = Path(__file__).parents[3]
READER = "tasks/commands/unsealing.py"


def test_only_the_command_that_counts_openings_reads_it() -> None:
    sources = [path for folder in ("components", "tasks", "flows", "benchmarks") for path in (ROOT / folder).rglob("*.py")]
    readers = [str(path.relative_to(ROOT)) for path in sources if "personas.sealed" in path.read_text("utf-8")]
    assert readers == [READER]


def test_sealed_personas_are_valid_and_share_no_scenario_story_or_portrait_with_the_other_splits() -> None:
    sealed = compose_sealed(7, 100)
    validate_personas("sealed.jsonl", sealed)
    train, test = compose_personas(load_library(), 7, 500, 100)
    assert {one.split for one in sealed} == {"sealed"} and len({one.persona_id for one in sealed}) == 100
    assert not any(overlap(train, sealed).values())
    shared = overlap(test, sealed)
    assert not shared["scenario_ids"] and not shared["stories"] and not shared["portraits"] and not shared["backgrounds"]
    assert {sum(one.hidden_need is need for one in sealed) for need in HiddenNeed} <= {12, 13}
    assert [one.model_dump() for one in compose_sealed(7, 100)] == [one.model_dump() for one in sealed]


def test_there_are_two_scenarios_a_domain_with_topics_of_their_own() -> None:
    known = load_library().domains()
    sealed = load_library(ROOT / "components/personas/sealed/scenarios").domains()
    assert {domain: len(scenarios) for domain, scenarios in sealed.items()} == dict.fromkeys(known, 2)
    said = {line for scenarios in known.values() for one in scenarios for line in (*one.lines, *one.openers)}
    assert not [line for scenarios in sealed.values() for one in scenarios for line in (*one.lines, *one.openers) if line in said]


def test_hints_state_no_need_and_are_in_no_other_list() -> None:
    spoken = {re.sub(r"\W+", " ", one.lower()) for need in HiddenNeed for split in ("train", "test") for one in cues(need, split)}
    of_needs = hints()
    everything = [one for of_need in of_needs.values() for one in of_need]
    assert min(map(len, of_needs.values())) >= 20 and len(set(everything)) == len(everything)
    assert not [one for one in everything if re.sub(r"\W+", " ", one.lower()) in spoken]
    assert not [one for one in everything if stated_need(one.replace("{role}", "sister"))]


def test_a_talking_user_of_the_sealed_test_hints_in_its_own_words() -> None:
    persona = compose_sealed(7, 1)[0]
    assert persona.story is not None and hints_of(persona) == list(persona.story.presses)
    speaker = TalkingSpeaker(persona, 3, cue_rate=1.0)
    now(speaker.open())
    said = now(speaker.speak(40)).text
    assert any(one.rstrip(".") in said for one in persona.story.presses)
