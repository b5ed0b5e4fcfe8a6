"""One story of your own, told by eight users with eight hidden needs: `python examples/own-personas/make.py -o my-personas.jsonl`."""

from __future__ import annotations

import argparse
import datetime
from pathlib import Path

from rlver.components.domain.files import write_jsonl
from rlver.components.domain.persona import HiddenNeed, Persona, PersonaClass
from rlver.components.personas.generator import background_of, story_of
from rlver.components.personas.library import load_library
from rlver.components.personas.needs import WORDS
from rlver.components.personas.people import reactions

NAME, OTHER = "Mara", "Ines"
TRAITS = ("insecure", "modest", "calm")  # three of those that components/domain/persona.py allows for the class
PORTRAIT = f"{NAME} Holt is a woman of 27 and a librarian. {NAME} speaks plainly and takes a while to trust people."


def personas(stories: Path) -> list[Persona]:
    (scenario,) = load_library(stories).scenarios  # refuses a story that gives a need away
    story = story_of(scenario, {"name": NAME, "other": OTHER}, talk=datetime.date(2025, 6, 9))
    return [
        Persona(
            persona_id=f"flat-{need.value}",
            language="en",
            source="generated",
            split="test",
            hidden_need=need,
            need_text=WORDS[need].need_text,
            persona_class=PersonaClass.PASSIVE,
            traits=TRAITS,
            portrait=PORTRAIT,
            background=background_of(story, NAME),
            reactions=reactions(NAME, need, PersonaClass.PASSIVE, TRAITS),
            first_line=scenario.openers[0],
            topic=scenario.topic,
            age=27,
            gender="f",
            occupation="a librarian",
            name=f"{NAME} Holt",
            style="plain",
            story=story,
            seed=0,
            generator="examples/own-personas",
        )
        for need in HiddenNeed
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--out", type=Path, required=True)
    made = personas(Path(__file__).parent / "stories")
    write_jsonl(parser.parse_args().out, [persona.model_dump(mode="json") for persona in made])
