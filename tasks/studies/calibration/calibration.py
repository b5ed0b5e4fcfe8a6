"""How demanding a user is: strategy acceptance and need expression, the two figures by which the RLVER paper tells its users apart."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from typing import NamedTuple

from rlver.components.domain.persona import Persona
from rlver.components.domain.protocols import About, AppraiserKind, Simulator, SimulatorUnavailable, exchanges_of
from rlver.components.domain.transcript import Dialogue
from rlver.components.rollout.episode import Job, check_failed
from rlver.components.scoring.acts import STRATEGIES
from rlver.components.scoring.statistics import Estimated, by_cluster
from rlver.components.scoring.units import Units
from rlver.components.settings.settings import Settings
from rlver.components.users.llm.simulator import LLMAppraiser, LLMSimulator
from rlver.components.users.scripted.effects import HARM
from rlver.components.users.scripted.reading import read_reply
from rlver.components.users.scripted.simulator import ScriptedAppraiser
from rlver.components.users.together import Together
from rlver.tasks.runtime.assembly import Conversation
from rlver.tasks.runtime.brackets import aligned
from rlver.tasks.runtime.progress import DialogueProgress

CONTEXTS = "vanilla"  # the users in whose dialogues strategies are judged
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
    def is_off(self) -> bool | None:
        """Whether it is further than TOLERANCE from the published figure; None where the interval does not decide it."""
        low, high = (end - self.published for end in self.measured.ci95)
        if low > TOLERANCE or high < -TOLERANCE:
            return True
        return False if low >= -TOLERANCE and high <= TOLERANCE else None


def difficulties_held(asks_model: bool) -> tuple[str, ...]:
    """The versions of the user in whose dialogues something is measured. Only cues need other contexts; an LLM user marks none."""
    return (CONTEXTS,) if asks_model else tuple(PUBLISHED)


def held_with_each_user(talk: Conversation, people: Sequence[Persona], count: int, settings: Settings) -> list[Dialogue]:
    """`count` dialogues with users of each version that the figures need, over all personas in turn, every round with a seed of its own."""
    jobs = []
    for difficulty in difficulties_held(talk.connection is not None):
        user = talk.user(settings, difficulty)
        for number in range(count):
            round_, place = divmod(number, len(people))
            persona, seed = people[place], settings.seed + round_
            jobs.append(Job(f"{difficulty}/{persona.persona_id}/{seed}", persona, seed, user))
    progress = DialogueProgress(len(jobs), costs=talk.costs)
    try:
        held = [rollout.dialogue for rollout in talk.hold(jobs, lambda rollout: progress.add(rollout.dialogue))]
    finally:
        progress.close()
    check_failed(held, settings.rollout.max_failure_rate)
    return held


def figures_of(talk: Conversation, held: Sequence[Dialogue], people: Sequence[Persona], settings: Settings) -> list[Figure]:
    """The figures of both users. LLM users mark no cues, so of them the need expression is left out."""
    contexts = [dialogue for dialogue in held if dialogue.simulator.difficulty == CONTEXTS and dialogue.error is None]
    by_id, units = {persona.persona_id: persona for persona in people}, Units.of(people)
    figures = []
    for difficulty, published in PUBLISHED.items():
        kind = _appraiser(talk.user(settings, difficulty), difficulty)
        accepted = strategy_acceptance(contexts, by_id, kind, talk.connection, settings.rollout.max_failure_rate)
        figures.append(Figure(difficulty, "strategy acceptance", accepted, published.acceptance))
        if not talk.connection:
            expressed = need_expression([dialogue for dialogue in held if dialogue.simulator.difficulty == difficulty], units)
            figures.append(Figure(difficulty, "need expression", expressed, published.expression))
    return figures


def table(figures: Sequence[Figure]) -> str:
    """The figures as lines for a terminal, in percent and points."""
    rows = []
    for figure in figures:
        low, high = figure.measured.ci95
        measured = f"{100 * figure.measured.value:.1f} [{100 * low:.1f}, {100 * high:.1f}]"
        rows.append((figure.difficulty, figure.name, measured, f"{100 * figure.published:.1f}", f"{100 * figure.difference:+.1f}"))
    return aligned(("user", "figure", "measured [95% interval]", "published", "difference"), rows)


def verdict(figures: Sequence[Figure]) -> str:
    """One line: everything is near enough, or what is not, or what so few dialogues do not decide."""
    said = {figure: f"{figure.difficulty} {figure.name} {100 * figure.difference:+.1f}" for figure in figures}
    off = [said[figure] for figure in figures if figure.is_off]
    unknown = [said[figure] for figure in figures if figure.is_off is None]
    within = f"{100 * TOLERANCE:.0f} points"
    if off:
        return f"further than {within} from the published figure: {', '.join(off)}"
    if unknown:
        return f"whether within {within} of the published figure is not decided by so few dialogues: {', '.join(unknown)}"
    return f"all within {within} of the published figures"


class Published(NamedTuple):
    """What the RLVER paper reports of one version of its user; shares in 0..1."""

    acceptance: float
    expression: float


PUBLISHED = {"vanilla": Published(0.524, 0.786), "challenging": Published(0.331, 0.636)}  # appendix D


def dominating_strategy(reply: str) -> str | None:
    """The one strategy of `reply`; None when it has none or several, or when it also hurts. Politeness may go with it."""
    acts = read_reply(reply).acts
    used = [strategy for strategy, carriers in STRATEGIES.items() if acts & carriers]
    return used[0] if len(used) == 1 and not acts & HARM.keys() else None


def _appraiser(user: Simulator, difficulty: str) -> AppraiserKind:
    """Whose acceptance is measured: the model of an LLM user, the appraiser of a user put together, else the scripted one."""
    if isinstance(user, Together):
        return user.appraiser
    return LLMAppraiser(user.half()) if isinstance(user, LLMSimulator) else ScriptedAppraiser(difficulty)


def strategy_acceptance(
    dialogues: Iterable[Dialogue],
    personas: Mapping[str, Persona],
    kind: AppraiserKind,
    connection: AbstractAsyncContextManager[object] | None = None,
    max_failure_rate: float = 0.0,
) -> Estimated:
    """Share of the dominated replies after which the emotion rises; the interval is over scenarios where personas have them.

    What an LLM user gives no answer to is left out. Raises SimulatorUnavailable when that is more than `max_failure_rate` of the replies, and
    ValueError when no reply is dominated by one strategy.
    """
    answers = asyncio.run(_answers(dialogues, personas, kind, connection))
    failed = [answer for answer in answers if isinstance(answer, SimulatorUnavailable)]
    if len(failed) > max_failure_rate * len(answers):
        raise failed[0]
    given = [answer for answer in answers if not isinstance(answer, SimulatorUnavailable)]
    accepted = by_cluster((persona_id, float(change > 0)) for persona_id, change in given)
    if not accepted:
        raise ValueError("no reply is dominated by one strategy, so there is no acceptance to measure")
    return Units.of(personas.values()).share(accepted)


async def _answers(
    dialogues: Iterable[Dialogue],
    personas: Mapping[str, Persona],
    kind: AppraiserKind,
    connection: AbstractAsyncContextManager[object] | None,
) -> list[tuple[str, int] | SimulatorUnavailable]:
    """(persona_id, change) of every dominated reply, each asked on its own with the emotion that it met."""

    async def one(dialogue: Dialogue, number: int) -> tuple[str, int] | SimulatorUnavailable:
        before = dialogue.turns[number - 1].emotion if number else dialogue.emotion_start
        appraiser = kind.appraiser(About(personas.get(dialogue.persona_id), dialogue.hidden_need), dialogue.seed)
        try:
            appraisal = await appraiser.appraise(exchanges_of(dialogue.turns[: number + 1]), before or 0)
        except SimulatorUnavailable as error:
            return error
        return dialogue.persona_id, appraisal.change

    async with connection or nullcontext():
        return await asyncio.gather(*(one(dialogue, number) for dialogue in dialogues for number in dominated_turns(dialogue)))


def dominated_turns(dialogue: Dialogue) -> list[int]:
    """The turns, from 0, whose reply one strategy dominates."""
    return [number for number, turn in enumerate(dialogue.turns) if dominating_strategy(turn.assistant)]


def need_expression(dialogues: Iterable[Dialogue], units: Units) -> Estimated:
    """Share of the messages after the opener that carry a cue to the need; the interval is over `units`.

    Raises ValueError when nobody said anything after the opener.
    """
    cues = by_cluster((dialogue.persona_id, float(turn.cue is True)) for dialogue in dialogues for turn in dialogue.turns[1:])
    if not cues:
        raise ValueError("every dialogue ended after its first reply, so there is no expression to measure")
    return units.share(cues)
