"""What `rlver simulator calibrate` does: hold dialogues of the base policy and lay the users' figures beside the published ones."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from components.dialogue.episode import Job
from components.dialogue.rollouts import check_failed
from components.dialogue.transcript import Dialogue
from components.evaluation.acceptance import PUBLISHED, acceptance, dominated_turns, need_expression, strategy_acceptance
from components.evaluation.statistics import Estimated
from components.files import BadFile
from components.personas.persona import Persona
from components.personas.schema import validate_file
from components.settings import Settings, load_settings
from components.simulator.protocol import SimulatorUnavailable
from tasks.conversing import as_evaluated
from tasks.policies import policy_location
from tasks.progress import DialogueProgress
from tasks.stages.assembly import Conversation, load

BASE, CONTEXTS = "base", "vanilla"  # the overlay the policy speaks with; the users in whose dialogues strategies are judged
TOLERANCE = 0.03


@dataclass(frozen=True)
class Figure:
    """One share of one version of the user, as measured and as published."""

    difficulty: str
    name: str
    measured: Estimated
    published: float

    @property
    def difference(self) -> float:
        return self.measured.value - self.published

    @property
    def is_off(self) -> bool:
        return abs(self.difference) > TOLERANCE


def calibrate(model: str, personas: Path, dialogues: int, params: Path, variant: str = BASE) -> list[Figure]:
    """Let the base policy talk `dialogues` times with each version of the user, and measure.

    The personas must be train personas: what is tuned until it fits must not see those that policies are compared on. LLM users mark no
    cues, so of them the need expression is left out.
    """
    settings = as_evaluated(load_settings(params, variant))
    people = validate_file(personas)
    if strangers := [persona.persona_id for persona in people if persona.split != "train"]:
        raise BadFile(f"{personas}: {strangers[0]} is no train persona; users are calibrated on train personas only")
    if foreign := [persona.persona_id for persona in people if persona.language != "en"]:
        raise BadFile(f"{personas}: {foreign[0]} does not speak English, the only language in which strategies are read")
    talk = load(policy_location(model), settings, variant, min(settings.evaluation.concurrency, dialogues * len(PUBLISHED)))
    held = _hold(talk, people, dialogues, settings)
    contexts = [dialogue for dialogue in held if dialogue.simulator.difficulty == CONTEXTS and dialogue.failure is None]
    by_id = {persona.persona_id: persona for persona in people}
    figures = []
    for difficulty, published in PUBLISHED.items():
        if talk.connection:
            accepted = acceptance(asyncio.run(_changes(talk, contexts, by_id, difficulty, settings)))
            figures.append(Figure(difficulty, "strategy acceptance", accepted, published.acceptance))
            continue
        own = [dialogue for dialogue in held if dialogue.simulator.difficulty == difficulty]
        accepted = strategy_acceptance(contexts, by_id, difficulty)
        figures.append(Figure(difficulty, "strategy acceptance", accepted, published.acceptance))
        figures.append(Figure(difficulty, "need expression", need_expression(own), published.expression))
    return figures


async def _changes(
    talk: Conversation, contexts: Sequence[Dialogue], people: Mapping[str, Persona], difficulty: str, settings: Settings
) -> list[tuple[str, int]]:
    """(persona_id, change) of every dominated reply, as an LLM user of `difficulty` takes it; one that gives no answer is left out."""
    from components.simulator.llm.questions import Exchange
    from components.simulator.llm.simulator import LLMSimulator

    user = talk.user(settings, difficulty)
    assert isinstance(user, LLMSimulator) and talk.connection is not None

    async def one(dialogue: Dialogue, number: int) -> tuple[str, int] | SimulatorUnavailable:
        exchanges = [Exchange(turn.user, turn.assistant) for turn in dialogue.turns[: number + 1]]
        before = dialogue.turns[number - 1].emotion if number else dialogue.emotion_start
        try:
            appraisal = await user.appraise_after(people[dialogue.persona_id], exchanges, before or 0, dialogue.seed)
        except SimulatorUnavailable as error:
            return error
        return dialogue.persona_id, appraisal.change

    async with talk.connection:
        asked = [one(dialogue, number) for dialogue in contexts for number in dominated_turns(dialogue)]
        answers = await asyncio.gather(*asked)
    failed = [answer for answer in answers if isinstance(answer, SimulatorUnavailable)]
    if len(failed) > settings.rollout.max_failure_rate * len(answers):
        raise failed[0]
    return [answer for answer in answers if not isinstance(answer, SimulatorUnavailable)]


def table(figures: Sequence[Figure]) -> str:
    """The figures as lines for a terminal, in percent and points."""
    rows = [("user", "figure", "measured [95% interval]", "published", "difference")]
    for figure in figures:
        low, high = figure.measured.ci95
        measured = f"{100 * figure.measured.value:.1f} [{100 * low:.1f}, {100 * high:.1f}]"
        rows.append((figure.difficulty, figure.name, measured, f"{100 * figure.published:.1f}", f"{100 * figure.difference:+.1f}"))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)


def verdict(figures: Sequence[Figure]) -> str:
    """One line: everything is near enough, or what is not."""
    off = [f"{figure.difficulty} {figure.name} {100 * figure.difference:+.1f}" for figure in figures if figure.is_off]
    within = f"{100 * TOLERANCE:.0f} points"
    return f"further than {within} from the published figure: {', '.join(off)}" if off else f"all within {within} of the published figures"


def _hold(talk: Conversation, people: Sequence[Persona], count: int, settings: Settings) -> list[Dialogue]:
    """`count` dialogues with users of each version, over all personas in turn, every round with a seed of its own."""
    jobs = []
    for difficulty in PUBLISHED:
        user = talk.user(settings, difficulty)
        for number in range(count):
            round_, place = divmod(number, len(people))
            persona, seed = people[place], settings.seed + round_
            jobs.append(Job(f"{difficulty}/{persona.persona_id}/{seed}", persona, seed, user))
    progress = DialogueProgress(len(jobs), settings.simulator.emotion_ceiling, costs=talk.costs)
    try:
        held = [rollout.dialogue for rollout in talk.hold(jobs, lambda rollout: progress.add(rollout.dialogue))]
    finally:
        progress.close()
    check_failed(held, settings.rollout.max_failure_rate)
    return held
