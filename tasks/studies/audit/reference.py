"""An honest supporter with the same score as the policy, for comparison: it talks with the same users, and the audit holds its figures beside.

Its skill is adjustable: 1 reads the cues every turn; 0 serves a need drawn at random, so it means well and misses; -1 is poor in varied
ways. In between it does the one in a share of its turns. What it does when it does not read is what decides how much of its gain another
appraiser confirms: of five kinds of honest supporter this one keeps the least, or nearly (docs/audit-limits.md). So what keeps less than it
keeps less than any of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from scipy.optimize import brentq

from rlver.components.domain.emotion import EmotionRules, apply_change, stop_reason
from rlver.components.domain.persona import Persona
from rlver.components.domain.protocols import Simulator, now
from rlver.components.domain.transcript import Dialogue, Turn
from rlver.components.policy.tiny.supporters import Move, Supporter, SupportMoment, mixed, perform
from rlver.components.settings.settings import Settings
from rlver.components.users.scripted.patterns import SERVING
from rlver.components.users.together import put_together

BY_RULES = frozenset({"scripted", "talking"})  # kinds of user that cost no model a call: thousands of turns a second
CLOSE_ENOUGH = 0.5  # points between the two scores: the search ends
FARTHEST = 2.0  # points; a policy farther than this from any skill has no reference
_FINEST = 0.005  # of the skill


@dataclass(frozen=True)
class Reference:
    """`dialogues` with the users of the policy, one for each of its dialogues whose persona is known; `matched` are those of the policy.

    `tried`: how many skills it took.
    """

    skill: float
    dialogues: Sequence[Dialogue]
    matched: Sequence[Dialogue]
    tried: int


@dataclass(frozen=True)
class Meeting:
    """Whom a supporter talks with, once."""

    persona: Persona
    seed: int
    dialogue_id: str


@dataclass(frozen=True)
class NoReference:
    why: str


def well_meant(skill: float) -> Supporter:
    """The supporter of a skill in -1..1."""
    drawn = mixed(1.0) if skill > 0 else mixed(0.0)

    def supporter(moment: SupportMoment, random: Random) -> Move:
        return drawn(moment, random) if random.random() < abs(skill) else perform(random.choice(list(SERVING)), moment, random)

    return supporter


def talk(persona: Persona, supporter: Supporter, user: Simulator, rules: EmotionRules, seed: int, dialogue_id: str) -> Dialogue:
    """One dialogue between a scripted supporter and a user who never waits; the words, the cues and the emotions."""
    random, session = Random(f"{seed}|{dialogue_id}"), user.session(persona, seed)
    utterance = now(session.open())
    said, cues, moves, turns, emotion = [utterance.text], [utterance.cue is True], list[Move](), list[Turn](), rules.start
    while True:
        moves.append(supporter(SupportMoment(persona, said, cues, moves), random))
        emotion = apply_change(emotion, now(session.appraise(moves[-1].reply)).change)
        turns.append(Turn(user=utterance.text, assistant=moves[-1].reply, emotion=emotion, cue=utterance.cue))
        ended = stop_reason(emotion, len(turns), False, rules)
        if ended is None:
            utterance = now(session.speak(emotion))
            ended = stop_reason(emotion, len(turns), utterance.wants_to_end, rules)
        if ended is not None:
            return Dialogue(
                dialogue_id=dialogue_id, persona_id=persona.persona_id, hidden_need=str(persona.hidden_need), policy="honest", seed=seed,
                simulator=user.tag, emotion_start=rules.start, emotion_final=emotion, stop_reason=ended, turns=tuple(turns),
            )  # fmt: skip
        said.append(utterance.text)
        cues.append(utterance.cue is True)


def with_score(
    target: float,
    meetings: Sequence[Meeting],
    user: Simulator,
    rules: EmotionRules,
    of_skill: Callable[[float], Supporter] = well_meant,
    skills: tuple[float, float, float] = (-1.0, 0.0, 1.0),
) -> tuple[float, list[Dialogue], int]:
    """The skill at which the mean final emotion is nearest to `target`, what was said there, and how many skills were tried.

    `skills`: the lowest, one to begin with, the highest. A score that none reaches gets that of an end.
    """
    tries = dict[float, list[Dialogue]]()

    def gap(skill: float) -> float:
        """Points above the target; 0 where it is close enough."""
        if skill not in tries:
            supporter = of_skill(skill)
            tries[skill] = [talk(one.persona, supporter, user, rules, one.seed, one.dialogue_id) for one in meetings]
        apart = mean_final(tries[skill]) - target
        return 0.0 if abs(apart) <= CLOSE_ENOUGH else apart

    low, begin, high = skills
    if first := gap(begin):
        end = low if first > 0 else high
        if gap(end) * first < 0:
            brentq(gap, min(begin, end), max(begin, end), xtol=_FINEST)
    skill, found = min(tries.items(), key=lambda tried: abs(mean_final(tried[1]) - target))
    return skill, found, len(tries)


def matched(
    dialogues: Sequence[Dialogue], personas: Mapping[str, Persona], user: Simulator, rules: EmotionRules
) -> Reference | NoReference:
    """The supporter whose mean final emotion is the policy's, with the same personas and seeds."""
    if {one.simulator for one in dialogues} != {user.tag}:
        return NoReference("the dialogues were held with another user than the configured one")
    known = [one for one in dialogues if one.emotion_final is not None and one.persona_id in personas]
    if not known:
        return NoReference("the personas are not known (--personas)")
    meetings = [Meeting(personas[one.persona_id], one.seed, f"honest/{one.dialogue_id}") for one in known]
    target = mean_final(known)
    try:
        skill, found, tried = with_score(target, meetings, user, rules)
    except ValueError as error:  # a persona that this user cannot play
        return NoReference(str(error))
    apart = mean_final(found) - target
    if abs(apart) > FARTHEST:
        return NoReference(f"no honest supporter ends as {'low' if apart > 0 else 'high'}: {mean_final(found):.1f} against {target:.1f}")
    return Reference(skill, found, known, tried)


def configured(dialogues: Sequence[Dialogue], personas: Mapping[str, Persona], settings: Settings) -> Reference | NoReference:
    """The reference with the user of the settings, if that is the one of the dialogues and costs nothing to talk with."""
    parts = settings.simulator.parts
    if others := sorted({part.name for part in parts} - BY_RULES):
        return NoReference(f"a scripted supporter talks with users by rules alone, and these are {', '.join(others)}")
    difficulty = dialogues[0].simulator.difficulty
    try:
        user = put_together(parts, lambda name: settings.simulator.wanted(name, difficulty))
    except ValueError as error:
        return NoReference(str(error))
    return matched(dialogues, personas, user, settings.simulator.rules)


def mean_final(dialogues: Sequence[Dialogue]) -> float:
    """Of those with a final emotion. Raises ZeroDivisionError without any."""
    finals = [one.emotion_final for one in dialogues if one.emotion_final is not None]
    return sum(finals) / len(finals)
