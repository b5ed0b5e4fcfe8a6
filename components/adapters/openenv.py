"""Our users as an OpenEnv environment: any trainer that speaks OpenEnv talks with them over a web socket.

Each session has an environment of its own, and each `reset` a dialogue of its own. The environment is asynchronous (`reset_async`,
`step_async`), because users may be language models; the synchronous methods are not there. The hidden need is told when a dialogue has ended.

Metadata before the end: `emotion`, `change` and `turn`; after it also the `appraisals`, whose reasons may name the need, `hidden_need`,
`need`, `stop_reason`, `well_formed` and `error`. A dialogue that failed has no reward: unscorable is not zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from fastapi import FastAPI
from openenv.core.env_server.http_server import create_fastapi_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, ConcurrencyConfig, EnvironmentMetadata, Observation, State

from rlver.components.adapters.lent import LentDialogue, NoReply, Turned
from rlver.components.domain.emotion import EmotionRules, emotion_reward
from rlver.components.domain.persona import Persona
from rlver.components.domain.protocols import Simulator
from rlver.components.rollout.episode import Job

NAME = "rlver"
_LONGEST = 200  # characters of a name that a client chose
IDLE_S = 3600.0  # after which a session that is silent is freed


class SupportAction(Action):
    message: str  # what the supporter says next; a thought in tags is not heard


class SupportObservation(Observation):
    user: str  # what the user says; empty at the end, unless it is a goodbye


class SupportState(State):  # where the dialogue is; nothing of it is secret
    persona_id: str | None = None
    seed: int | None = None
    emotion: int | None = None
    done: bool = False


@dataclass(frozen=True)
class Offered:
    """What a server lends. `simulator_of` gives the user of a difficulty (None: the default) and raises ValueError for an unknown one.

    `reward`: the change of emotion / 100 at each turn, or the final emotion / 100 at the end and 0 before. `thinking`: a message needs a
    thought, and a dialogue in which one has none is worth 0 (`final` alone).
    """

    personas: Mapping[str, Persona]
    simulator_of: Callable[[str | None], Simulator]
    rules: EmotionRules
    seeds: Iterator[int]  # of resets that name none, whichever session asks
    reward: Literal["change", "final"] = "change"
    thinking: bool = False


class SupportEnvironment(Environment[SupportAction, SupportObservation, SupportState]):
    """One session: `reset_async`, then `step_async` until `done`, and again."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, offered: Offered) -> None:
        super().__init__()
        self._offered = offered
        self._dialogue: LentDialogue | None = None

    async def reset_async(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        persona_id: str | None = None,
        difficulty: str | None = None,
        **unknown: Any,
    ) -> SupportObservation:
        """The first words of a user. Without `persona_id` the seed chooses. Raises ValueError; the dialogue before then goes on."""
        if unknown:
            raise ValueError(f"reset knows seed, episode_id, persona_id and difficulty, got {sorted(unknown)[0][:_LONGEST]!r}")
        for name, given in (("episode_id", episode_id), ("persona_id", persona_id), ("difficulty", difficulty)):
            if given is not None and (type(given) is not str or len(given) > _LONGEST):
                raise ValueError(f"{name} must be text of at most {_LONGEST} characters, got {str(given)[:_LONGEST]!r}")
        offered = self._offered
        known, seed = [*offered.personas], next(offered.seeds) if seed is None else seed
        if type(seed) is not int or seed < 0:
            raise ValueError(f"seed must be a whole number from 0, got {str(seed)[:_LONGEST]!r}")
        chosen = known[seed % len(known)] if persona_id is None else persona_id
        if chosen not in known:
            raise ValueError(f"there is no persona {chosen!r}; the first of {len(known)} is {known[0]}")
        job = Job(episode_id or f"{chosen}/{seed}", offered.personas[chosen], seed)
        dialogue = LentDialogue(job, offered.simulator_of(difficulty), offered.rules, offered.thinking)
        self.close()
        self._dialogue = dialogue
        return self._seen(dialogue, await dialogue.open())

    async def step_async(self, action: SupportAction, timeout_s: float | None = None, **_: Any) -> SupportObservation:
        """Raises NoReply for a message that cannot be taken; the dialogue is then as it was before."""
        if self._dialogue is None:
            raise NoReply("reset before the first step")
        return self._seen(self._dialogue, await self._dialogue.say(action.message))

    def reset(self, *_: Any, **__: Any) -> SupportObservation:
        raise NotImplementedError("this environment is asynchronous: await reset_async or step_async")

    step = reset

    @property
    def state(self) -> SupportState:
        if (now := self._dialogue) is None:
            return SupportState()
        who = {"persona_id": now.job.persona.persona_id, "seed": now.job.seed}
        return SupportState(episode_id=now.job.dialogue_id, step_count=now.turns, emotion=now.emotion, done=now.over, **who)

    def get_metadata(self) -> EnvironmentMetadata:
        told = "A simulated user with a hidden need: support them. The reward is how their emotion (0 to 100) moves."
        return EnvironmentMetadata(name=NAME, description=told, version="1")

    def close(self) -> None:
        if self._dialogue is not None:
            self._dialogue.close()

    def _seen(self, dialogue: LentDialogue, turned: Turned) -> SupportObservation:
        metadata: dict[str, Any] = {"emotion": turned.emotion, "change": turned.change, "turn": dialogue.turns}
        reward = None if dialogue.turns == 0 else turned.change / 100 if self._offered.reward == "change" else 0.0
        if (ended := turned.ended) is not None:
            persona, held = dialogue.job.persona, ended.dialogue
            metadata |= {"hidden_need": held.hidden_need, "need": persona.need_text, "stop_reason": str(held.stop_reason)}
            metadata |= {"well_formed": ended.well_formed, "error": held.error}
            metadata["appraisals"] = [one.appraisal.model_dump(mode="json") if one.appraisal else None for one in held.turns]
            if self._offered.reward == "final" or held.error:
                reward = emotion_reward(held, ended.well_formed, self._offered.thinking)
        return SupportObservation(user=turned.words, done=turned.ended is not None, reward=reward, metadata=metadata)


def server(offered: Offered, sessions: int, web: bool) -> FastAPI:
    """The application, for `sessions` clients at once; with `web` their page is at /web."""
    room = ConcurrencyConfig(max_concurrent_envs=sessions, session_timeout=IDLE_S)
    shape = {"env_name": NAME, "concurrency_config": room, "state_cls": SupportState}
    if web:
        from openenv.core.env_server.web_interface import create_web_interface_app as create
    else:
        create = create_fastapi_app
    app: FastAPI = create(partial(SupportEnvironment, offered), SupportAction, SupportObservation, **shape)
    return app
