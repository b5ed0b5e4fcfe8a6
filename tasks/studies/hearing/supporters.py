"""What supporters who write free English earn from a user: one who was told the need, the best fixed plan, and one who picks acts at random.

Their replies were written beforehand, eight for each act and story of the test users, by somebody who saw the story and no user's reaction. So the told
supporter knows the need and the story, not what was just said: somebody who answers the very message should do better.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from random import Random

from torch import get_num_threads

from rlver.components.domain.emotion import EmotionRules
from rlver.components.domain.files import BadFile
from rlver.components.domain.persona import Persona
from rlver.components.domain.protocols import Simulator
from rlver.components.policy.tiny.model import hold
from rlver.components.policy.tiny.supporters import Move, Supporter, SupportMoment
from rlver.components.scoring.statistics import Estimated, Interval, by_cluster, cluster_bootstrap
from rlver.components.users.scripted.effects import NEEDS_HEARING_FIRST, SERVES

REPLIES = Path(__file__).with_name("supporter_replies.txt")
HEARS_FIRST = "deep_empathy"
PLANS = 24  # drawn at random, beside those that do one thing all the time
_WHOLE_RANGE = Interval(0, 100)
Bank = Mapping[str, Mapping[str, Sequence[str]]]  # story, act, replies in the order in which they are said


@dataclass(frozen=True)
class Earned:
    supporter: str
    final: Estimated  # emotion; clusters are the stories


def bank(path: Path = REPLIES) -> Bank:
    """The replies of a file of `@ story` and `act: reply` lines. Raises BadFile."""
    found: dict[str, dict[str, list[str]]] = {}
    story: dict[str, list[str]] | None = None
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        act, _, reply = line.partition(": ")
        if line.startswith("@ "):
            story = found.setdefault(line[2:].strip(), {})
        elif story is not None and act in SERVES.values() and reply.strip():
            story.setdefault(act, []).append(reply.strip())
        elif line.strip():
            raise BadFile(f"{path.name}: line {number}: expected `@ story` or `act: reply`, with an act that serves a need")
    return found


def earned(personas: Sequence[Persona], simulator: Simulator, rules: EmotionRules, samples: int, seed: int) -> list[Earned]:
    """Each supporter's final emotion. The fixed plan is chosen on every other story and measured on the others, both ways round."""
    replies = bank()
    met = [persona for persona in personas if persona.story is not None and persona.story.scenario_id in replies]

    def finals(supporter: Supporter, people: Sequence[Persona]) -> dict[str, list[float]]:
        with ThreadPoolExecutor(get_num_threads()) as several:  # the reader reads as many replies at a time
            held = list(several.map(lambda one: hold(one, supporter, simulator, rules, seed, False), people))
        return by_cluster((story_of(one), float(dialogue.emotion_final)) for one, dialogue in zip(people, held, strict=True))

    plans = plans_to_try(seed)
    half = set(sorted(replies)[::2])
    sides = [[one for one in met if (story_of(one) in half) == is_first] for is_first in (True, False)]
    if not all(sides):
        raise ValueError(f"a plan is chosen on every other story: {len(met)} personas are of one half of the stories; take more")
    by_plan = [[finals(planned(replies, plan), people) for plan in plans] for people in sides]
    chosen: dict[str, list[float]] = {}
    for tried, measured in ((by_plan[0], by_plan[1]), (by_plan[1], by_plan[0])):
        best = max(range(len(plans)), key=lambda plan: sum(map(sum, tried[plan].values())))
        chosen |= measured[best]
    figures = {"told the need": finals(told(replies), met), "best fixed plan": chosen, "acts at random": finals(at_random(replies), met)}
    return [Earned(name, cluster_bootstrap(found, samples, seed, _WHOLE_RANGE)) for name, found in figures.items()]


def told(replies: Bank) -> Supporter:
    """Does what the need asks for; users who want reasoning are heard first. What is used up is followed by what hears."""

    def supporter(moment: SupportMoment, random: Random) -> Move:
        need = moment.persona.hidden_need
        is_first = need in NEEDS_HEARING_FIRST and not moment.moves
        return _said(replies, moment, HEARS_FIRST if is_first else SERVES[need])

    return supporter


def planned(replies: Bank, plan: Sequence[str]) -> Supporter:
    """The same acts in the same order for every user."""
    return lambda moment, random: _said(replies, moment, plan[len(moment.moves) % len(plan)])


def at_random(replies: Bank) -> Supporter:
    acts = sorted(SERVES.values())
    return lambda moment, random: _said(replies, moment, random.choice(acts))


def plans_to_try(seed: int) -> list[tuple[str, ...]]:
    acts, random = sorted(SERVES.values()), Random(seed)
    return [*((act,) for act in acts), *(tuple(random.sample(acts, len(acts))) for _ in range(PLANS))]


def story_of(persona: Persona) -> str:
    assert persona.story is not None
    return persona.story.scenario_id


def _said(replies: Bank, moment: SupportMoment, act: str) -> Move:
    """The next reply of this act that was not said yet; of a used-up act, one that hears."""
    own, said = replies[story_of(moment.persona)], {move.reply for move in moment.moves}
    for one in (act, HEARS_FIRST, "invite_telling"):
        for reply in own[one]:
            if reply not in said:
                return Move(one, "", reply)
    raise ValueError(f"{story_of(moment.persona)}: no reply is left after {len(said)}")
