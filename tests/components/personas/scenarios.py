"""A scenario short enough to be read, for the tests."""

from __future__ import annotations

from typing import Any


def scenario(domain: str, number: int, **changes: Any) -> dict[str, Any]:
    thing = f"{domain} thing {number}"
    values: dict[str, Any] = {
        "id": f"{domain}-story-{number}",
        "domain": domain,
        "topic": f"a sister sold the {thing}",
        "ages": [20, 50],
        "other": {"role": "sister", "gender": "f"},
        "cause": f"{{other}} sold the {thing} without asking {{name}}.",
        "timeline": [
            {"day": -40, "event": f"{{name}} polished the {thing}.", "feeling": "content"},
            {"day": -9, "event": "{other} sold it.", "feeling": "stunned"},
            {"day": -8, "event": "they shouted in the hall", "feeling": "furious"},
            {"day": -1, "event": "{other} sent back the photographs.", "feeling": "empty"},
        ],
        "conflict": {"event": "a sale without a word", "people": "{name} and {other}", "inner_cause": "{other} needed the money"},
        "attempts": ["{name} rang the buyer.", "{name} wrote to {other}."],
        "present": f"The {thing} is gone.",
        "feels_like": "It feels like a room with the floor taken out.",
        "openers": [f"{{other}} sold our {thing} on Monday.", f"My sister sold the {thing}.", f"The {thing} is gone since Monday."],
        "lines": [f"On day {k} I looked for the {thing} with {{other}}." for k in range(14)],
        "deeds": [f"you polished the {thing} for {k} years" for k in range(4)],
        "steps": [f"ask buyer number {k} about it" for k in range(4)],
        "motives": [f"{{other}} owed {k} hundred" for k in range(4)],
        "own_part": [f"you stayed away {k} months" for k in range(3)],
        "hurts": [f"losing {k} years of music" for k in range(4)],
    }
    return values | changes
