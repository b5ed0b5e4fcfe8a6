"""Scripted parts for the tests: users who feel what they are told to feel, policies that say what they are told to say."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from rlver.components.domain.emotion import EmotionRules
from rlver.components.domain.persona import Persona
from rlver.components.domain.protocols import Simulator, SimulatorUnavailable, Utterance
from rlver.components.domain.transcript import Appraisal, Dialogue, Evidence, SimulatorTag, StopReason, Turn
from rlver.components.personas.generator import compose_personas
from rlver.components.personas.library import load_library
from rlver.components.policy.sampler import Sample, SampleRequest
from rlver.components.policy.token_policy import Speaking, TokenPolicy
from rlver.components.rollout.episode import Job

if TYPE_CHECKING:
    from rlver.components.replay.verification import Mismatch

END, USER, ASSISTANT, NEWLINE = 0, 1, 2, 10
TAG = SimulatorTag(kind="fake", difficulty="vanilla", version="1")
RULES = EmotionRules(start=40, ceiling=100, floor=10, max_turns=4)
SPEAKING = Speaking(policy="p", thinking=False, strip_thoughts=False, max_reply_tokens=40, max_context_tokens=1000)


@cache
def people() -> tuple[tuple[Persona, ...], tuple[Persona, ...]]:
    """(16 train personas, 8 test personas, one for each need) of the embedded library."""
    train, test = compose_personas(load_library(), 7, 16, 8)
    return tuple(train), tuple(test)


def job(number: int, seed: int = 1) -> Job:
    persona = people()[0][number % 16]
    return Job(f"d{number}", persona, seed)


class LetterChat:
    """One token per letter; between two turns stands a newline that nobody sampled, as in Qwen's template."""

    end_of_turn = END

    def start(self, user: str, language: str = "en") -> list[int]:
        return [USER, *map(ord, user), ASSISTANT]

    def user_turn(self, user: str) -> list[int]:
        return [NEWLINE, USER, *map(ord, user), ASSISTANT]

    def decode(self, token_ids: Sequence[int]) -> str:
        return "".join(chr(token) for token in token_ids if token != END)

    def count(self, text: str) -> int:
        return len(text)


@dataclass
class FakeUser:
    """Says "<name> 0", "<name> 1", … and changes its emotion as scripted; `breaks` names the call that fails ("speak 2")."""

    name: str
    changes: Sequence[int]
    leaves_after: int | None = None
    breaks: str | None = None
    heard: list[str] = field(default_factory=list)
    emotions: list[int] = field(default_factory=list)

    async def open(self) -> Utterance:
        self._try("open")
        return Utterance(f"{self.name} 0", cue=False)

    async def appraise(self, reply: str) -> Appraisal:
        self.heard.append(reply)
        self._try(f"appraise {len(self.heard)}")
        await asyncio.sleep(0)
        return an_appraisal(self.changes[len(self.heard) - 1])

    async def speak(self, emotion: int) -> Utterance:
        self.emotions.append(emotion)
        self._try(f"speak {len(self.emotions)}")
        return Utterance(f"{self.name} {len(self.heard)}", cue=len(self.heard) == 1, wants_to_end=self.leaves_after == len(self.heard))

    def _try(self, call: str) -> None:
        if call == self.breaks:
            raise SimulatorUnavailable(f"no answer to {call}")


@dataclass
class FakeSimulator:
    """Gives each persona its own scripted user, and remembers which session was whose."""

    user_of: Callable[[Persona, int], FakeUser]
    sessions: list[FakeUser] = field(default_factory=list)

    @property
    def tag(self) -> SimulatorTag:
        return TAG

    def session(self, persona: Persona, seed: int) -> FakeUser:
        self.sessions.append(self.user_of(persona, seed))
        return self.sessions[-1]


@dataclass
class FakeSampler:
    """Says `text(dialogue_id, turn)`; a text that is too long is cut off and not finished. Yields, so that dialogues interleave."""

    text: Callable[[str, int], str] = lambda dialogue_id, turn: f"reply {turn} to {dialogue_id}"
    waits: Mapping[str, int] = field(default_factory=dict)
    requests: list[SampleRequest] = field(default_factory=list)
    open: set[str] = field(default_factory=set)
    most_open: int = 0
    forgotten: list[str] = field(default_factory=list)

    def start(self) -> None:
        """Nothing is kept between dialogues."""

    async def close(self) -> None:
        """Nothing is kept open."""

    async def sample(self, request: SampleRequest) -> Sample:
        turn = sum(earlier.dialogue_id == request.dialogue_id for earlier in self.requests)
        self.requests.append(request)
        self.open.add(request.dialogue_id)
        self.most_open = max(self.most_open, len(self.open))
        for _ in range(1 + self.waits.get(request.dialogue_id, 0)):
            await asyncio.sleep(0)
        ids = tuple(map(ord, self.text(request.dialogue_id, turn)))
        finished = len(ids) < request.max_tokens
        ids = (*ids, END) if finished else ids[: request.max_tokens]
        return Sample(ids, tuple(-0.5 - 0.001 * place for place in range(len(ids))), finished)

    def forget(self, dialogue_id: str) -> None:
        self.open.discard(dialogue_id)
        self.forgotten.append(dialogue_id)


def an_appraisal(change: int, *evidence: Evidence) -> Appraisal:
    return Appraisal(content="c", target="t", activity="a", feeling="f", change=change, evidence=evidence)


def a_dialogue(
    name: str, changes: Sequence[int], *, stop: StopReason = StopReason.TURN_LIMIT, turns: Sequence[Turn] | None = None
) -> Dialogue:
    """A dialogue whose emotions follow from the changes, from 40."""
    emotion, made = 40, []
    for number, change in enumerate(changes):
        emotion = max(0, min(100, emotion + change))
        made.append(Turn(user=f"u{number}", assistant=f"r{number}", emotion=emotion, appraisal=an_appraisal(change), cue=False))
    return Dialogue(
        dialogue_id=name,
        persona_id=name,
        hidden_need="deep_empathy",
        policy="p",
        seed=1,
        simulator=TAG,
        emotion_start=40,
        emotion_final=emotion,
        stop_reason=stop,
        turns=tuple(turns or made),
    )


REPLIES = (
    "I am so sorry, that sounds really hard.",
    "Tell me more about it. I am listening.",
    "You did nothing wrong here.",
    "Everything happens for a reason.",
    "I really admire how you kept going, that took courage.",
    "Maybe she was afraid of losing you.",
    "You could write down what you want to say first.",
    "On the one hand she hurt you, on the other hand she misses you.",
    "Looking back, what would you do differently?",
    "Underneath all that I can sense the hurt.",
)


def scripted_dialogues(count: int = 8, difficulty: str = "vanilla") -> list[Dialogue]:
    """Dialogues of the real scripted user, one with each test persona, with replies that go well and badly."""
    from rlver.components.users.scripted.simulator import ScriptedSimulator

    return dialogues_of(ScriptedSimulator(difficulty), people()[1][:count], lambda number, turn: REPLIES[(turn + number) % len(REPLIES)])


def dialogues_of(
    user: Simulator, personas: Sequence[Persona], reply: Callable[[int, int], str], rules: EmotionRules | None = None
) -> list[Dialogue]:
    """One dialogue with each persona; `reply` says what it hears, by its number and the turn, both from 0."""
    from rlver.components.rollout.episode import run_episodes

    jobs = [Job(f"p/{persona.persona_id}/3", persona, 3) for persona in personas]
    order = {job.dialogue_id: number for number, job in enumerate(jobs)}
    sampler = FakeSampler(lambda name, turn: reply(order[name], turn))
    speaking = Speaking(policy="p", thinking=False, strip_thoughts=False, max_reply_tokens=200, max_context_tokens=100_000)
    policy = TokenPolicy(sampler, LetterChat(), speaking)
    coroutine = run_episodes(jobs, user, policy, rules or EmotionRules(), 8)
    return [rollout.dialogue for rollout in asyncio.run(coroutine)]


def difference_of(dialogue: Dialogue, personas: Mapping[str, Persona], appraiser: str = "") -> Mismatch | None:
    """What `rlver verify` finds in a dialogue with the parameters of the checkout; `appraiser` as its --appraiser. Models cannot be asked."""
    from rlver.components.replay.verification import first_difference
    from rlver.components.settings.settings import load_settings
    from rlver.tasks.runtime.appraisers import recorded_user

    settings = load_settings(Path(__file__).parents[1] / "params.yaml")
    halves = {half: getattr(settings.simulator.llm, half).model_copy(update={"model": "nobody"}) for half in ("appraiser", "speaker")}
    named = settings.simulator.model_copy(update={"llm": settings.simulator.llm.model_copy(update=halves)})
    settings = settings.model_copy(update={"simulator": named})
    return first_difference(dialogue, personas, lambda tag, is_appraiser: recorded_user(settings, tag, is_appraiser, appraiser, object()))
