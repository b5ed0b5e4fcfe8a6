"""Our users as an agent loop of verl: an episode is our own dialogue, and its policy is the model that verl serves.

Tokens, mask and log-probabilities are those of the dialogue as it was held; nothing is rendered a second time. A dialogue that failed raises, so verl
has no output of it and learns from the rest of its group: unscorable is not zero. verl has the sampling (temperature, top_p); our parameters have
users, thoughts and lengths.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopOutput
from verl.utils.profiler import simple_timer

from rlver.components.adapters.lent import NotScored
from rlver.components.adapters.verl_dataset import NAME
from rlver.components.domain.emotion import emotion_reward
from rlver.components.domain.persona import Persona
from rlver.components.domain.protocols import PolicyUnavailable, Simulator
from rlver.components.domain.thinking import system_prompt
from rlver.components.policy.chat import ChatFormat
from rlver.components.policy.sampler import Sample, SampleRequest
from rlver.components.policy.token_policy import Speaking, TokenPolicy
from rlver.components.rollout.episode import Job, Rollout, run_episode
from rlver.components.settings.settings import Settings, load_settings
from rlver.components.users.together import user_of


class SupportAgentLoop(AgentLoopBase):
    """One dialogue. It is found by verl's list of agent loops (`agent_loop_config_path`), which says what it is made with; verl's own `register` would
    take that away when the module is imported. `params` and `variant` name our parameters, as paths that every worker can read; `difficulty` replaces that of the users."""

    def __init__(
        self, *args: Any, params: str = "params.yaml", variant: str | None = None, difficulty: str | None = None, **more: Any
    ) -> None:
        """Raises ValueError for settings of verl and of ours that do not go together."""
        super().__init__(*args, **more)
        self._settings, self._simulator = environment(params, variant, difficulty)
        policy, rollout = self._settings.policy, self.rollout_config
        self._turn_rows = policy.thinking and policy.thoughts == "strip"
        if not rollout.calculate_log_probs:
            raise ValueError("set actor_rollout_ref.rollout.calculate_log_probs=True: an episode keeps what its tokens were sampled with")
        if rollout.response_length < policy.max_context_tokens:
            raise ValueError(
                f"actor_rollout_ref.rollout.response_length is {rollout.response_length}, and a dialogue may have "
                f"policy.max_context_tokens = {policy.max_context_tokens}: raise the first or lower the second"
            )
        if self._turn_rows and not self.config.trainer.use_v1:
            raise ValueError("policy.thoughts: strip makes a row of each turn, which needs trainer.use_v1=True")

    async def run(self, sampling_params: dict[str, Any], **row: Any) -> AgentLoopOutput | list[AgentLoopOutput]:
        """One output, or with `policy.thoughts: strip` one for each turn. Raises NotScored for a dialogue that failed."""
        about, wanted = row["extra_info"], self._settings.policy
        persona, seed = Persona.model_validate_json(about["persona"]), int(about["seed"])
        session = self._simulator.session(persona, seed)
        sampler = ServerSampler(self.server_manager, sampling_params, self.tokenizer.eos_token_id)
        system_of = {language: system_prompt(wanted.thinking, language) for language in ("en", "zh")}
        speaking = Speaking(NAME, wanted.thinking, self._turn_rows, wanted.max_reply_tokens, wanted.max_context_tokens)
        policy = TokenPolicy(sampler, ChatFormat(self.tokenizer, system_of["en"], system_of), speaking)
        job = Job(f"{persona.persona_id}/{row['uid']}/{row.get('session_id', row.get('priority', 0))}", persona, seed)
        rollout = await run_episode(job, session, self._simulator.tag, policy, self._settings.simulator.rules)
        outputs = self._outputs(rollout, sampler)
        return outputs if self._turn_rows else outputs[0]

    def _outputs(self, rollout: Rollout, sampler: ServerSampler) -> list[AgentLoopOutput]:
        held = rollout.dialogue
        reward = emotion_reward(held, rollout.well_formed, self._settings.reward.format_gate and self._settings.policy.thinking)
        if reward is None:
            raise NotScored(f"{held.dialogue_id}: {held.error}")
        if len(rollout.prompt_ids) > self.rollout_config.prompt_length:
            raise ValueError(f"actor_rollout_ref.rollout.prompt_length must be at least {len(rollout.prompt_ids)} for {held.persona_id}")
        emotions = [held.emotion_start, *(turn.emotion or 0 for turn in held.turns)]
        told = {
            "turn_scores": [(after - before) / 100 for before, after in pairwise(emotions)],
            "tool_rewards": [],
            "reward_extra_info": {"emotion": emotions[-1], "well_formed": int(rollout.well_formed), "turns": len(held.turns)},
            "min_global_steps": min(sampler.versions, default=None),
            "max_global_steps": max(sampler.versions, default=None),
            "dialogue": held.model_dump_json(),
        }
        rows = [rollout.seen(turn) for turn in (range(len(held.turns)) if self._turn_rows else [None])]
        return [
            AgentLoopOutput(
                prompt_ids=list(rollout.prompt_ids),
                response_ids=[token for token, _, _ in tokens],
                response_mask=[int(said) for _, said, _ in tokens],
                response_logprobs=[logprob if said else 0.0 for _, said, logprob in tokens],
                reward_score=reward,
                num_turns=2 * len(held.turns),
                metrics=dict(sampler.metrics),
                extra_fields=dict(told),
            )
            for tokens in rows
        ]


@cache
def environment(params: str, variant: str | None, difficulty: str | None = None) -> tuple[Settings, Simulator]:
    """Settings and users, once a worker. Raises ValueError for users who are language models (their connection is our own), and for other rewards."""
    settings = load_settings(Path(params), variant, difficulty=difficulty)
    if settings.reward.kind != "emotion":
        raise ValueError(f"reward.kind is {settings.reward.kind}; in verl the reward is the final emotion: set reward.kind: emotion")
    if settings.simulator.models:
        raise ValueError("users who are language models are not lent to verl yet: take OpenEnv (`rlver env serve`)")
    return settings, user_of(settings.simulator)


@dataclass
class ServerSampler:
    """Turns from verl's servers. Random draws are theirs: no seed is sent. `versions` are the training steps of the weights that spoke."""

    server: Any
    sampling: Mapping[str, Any]
    end_of_turn: int
    metrics: dict[str, Any] = field(default_factory=dict)
    versions: list[int] = field(default_factory=list)

    async def sample(self, request: SampleRequest) -> Sample:
        """Raises PolicyUnavailable for a turn that was broken off, or has no log-probabilities."""
        told = {**self.sampling, "max_tokens": request.max_tokens, "stop_token_ids": [self.end_of_turn], "ignore_eos": True}
        with simple_timer("generate_sequences", self.metrics):
            got = await self.server.generate(request.dialogue_id, prompt_ids=list(request.context_ids), sampling_params=told)
        if got.stop_reason in ("abort", "aborted") or not got.token_ids or len(got.log_probs or ()) != len(got.token_ids):
            scored = len(got.log_probs or ())
            raise PolicyUnavailable(
                f"verl's server gave {len(got.token_ids)} tokens, {scored} of them scored; it ended by {got.stop_reason}"
            )
        steps = (got.extra_fields.get(name) for name in ("min_global_steps", "max_global_steps"))
        self.versions += [step for step in steps if step is not None]
        return Sample(tuple(got.token_ids), tuple(got.log_probs), got.token_ids[-1] == self.end_of_turn)

    def start(self) -> None:
        """verl gives its servers the weights."""

    async def close(self) -> None:
        """verl has the connections."""

    def forget(self, dialogue_id: str) -> None:
        """verl's servers forget by themselves."""
