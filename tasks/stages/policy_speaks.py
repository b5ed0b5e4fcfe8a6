"""Who speaks for the policy in rollouts: the model in this process, or a vLLM server that gets its weights (`rollout.sampler`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from components.policy.token_policy import TokenPolicy
from components.settings import Settings
from tasks import environment
from tasks.serving.server import Serving, available
from tasks.stages.assembly import Conversation, conversation, load


@contextmanager
def policy_server(settings: Settings, model: Path | str, concurrency: int) -> Iterator[str | None]:
    """The address of the server for rollouts: the user's own, or one for as long as this lasts; None where none is wanted."""
    if settings.rollout.sampler == "transformers":
        yield None
    else:
        with available(environment.project_root(), Serving(str(model), settings.policy.max_context_tokens, concurrency)) as url:
            yield url


def over_http(talk: Conversation, settings: Settings, url: str | None, weights: Callable[[], Path]) -> Conversation:
    """`talk` with the server at `url` in place of the model in this process; as it is where `url` is None."""
    from components.policy.vllm_sampler import VllmSampler

    if url is None:
        return talk
    assert isinstance(talk.policy, TokenPolicy)
    numbers = (settings.policy.temperature, settings.policy.top_p, talk.concurrency)
    key = environment.policy_server_key(environment.project_root(), url)
    sampler = VllmSampler(url, talk.policy.chat.end_of_turn, *numbers, weights, key)
    return replace(talk, policy=replace(talk.policy, sampler=sampler))


@contextmanager
def opened(model: Path | str, settings: Settings, policy_name: str, concurrency: int) -> Iterator[Conversation]:
    """A conversation with the policy saved at `model`, whoever speaks for it. Raises ValueError in one line when there is none."""
    from components.policy.load import check_policy

    if settings.rollout.sampler == "vllm" and not Path(model).is_dir():
        raise ValueError(f"rollout.sampler: vllm needs the policy in a folder of this machine, got {model}")
    tokenizer = check_policy(model) if settings.rollout.sampler == "vllm" else None
    with policy_server(settings, model, concurrency) as url:
        if url is None:
            yield load(model, settings, policy_name, concurrency)
        else:
            no_model: Any = None
            talk = conversation(settings, policy_name, no_model, tokenizer, concurrency)
            yield over_http(talk, settings, url, lambda: Path(model))
