"""What `--policy` may name: a model folder, `hf:NAME`, another source's `SOURCE:NAME`, or a model behind a chat endpoint (`openai:MODEL`, `vllm:URL`).

A chat endpoint gives text and no tokens: such a policy can be talked with and scored, and nothing else.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rlver.components.domain.files import BadFile
from rlver.components.domain.printable import without_secrets
from rlver.components.domain.registry import MODELS
from rlver.components.settings.settings import Settings

if TYPE_CHECKING:
    from rlver.tasks.runtime.assembly import Conversation
    from rlver.tasks.runtime.connections import Connection

HUB, OPENAI, VLLM = "hf:", "openai:", "vllm:"


@dataclass(frozen=True)
class PolicyCandidate:
    """A policy to be talked with: the name it gets in transcripts, and where it is. `connection`: of a chat endpoint."""

    name: str
    location: str
    connection: Connection | None = None

    def folder(self) -> Path | None:
        """Where the model lies on this machine, fetched if need be; None behind an endpoint. Raises ValueError in one line."""
        from rlver.components.policy.load import located

        return located(self.location) if self.connection is None else None

    def open_conversation(self, settings: Settings, concurrency: int) -> AbstractContextManager[Conversation]:
        """With its policy loaded, served or connected. Raises ValueError in one line."""
        from rlver.tasks.runtime.assembly import endpoint_conversation, open_conversation

        if self.connection is None:
            return open_conversation(self.location, settings, self.name, concurrency)
        return nullcontext(endpoint_conversation(settings, self.connection, self.name, concurrency))


def candidate(policy: str, settings: Settings, variant: str | None = None) -> PolicyCandidate:
    """Who is meant by `policy`; a chat endpoint is found in order, so that nothing is spent in vain.

    Raises BadFile, NoServer, EndpointError or ValueError, in one line that says what to do.
    """
    if not is_served(policy):
        location = policy_location(policy)
        own = variant if Path(location).is_dir() else None  # the model of a variant is a folder; an overlay fits any other
        return PolicyCandidate(own or Path(os.path.abspath(location)).name.rpartition(":")[2], location)  # `.` has no name
    from rlver.tasks.runtime.connections import to_policy

    if policy.startswith(OPENAI):
        connection = to_policy(settings, [policy.removeprefix(OPENAI)])
    else:
        connection = _at_address(policy.removeprefix(VLLM), settings)
    connection.check()
    model = connection.models[0]
    return PolicyCandidate(model, f"{OPENAI}{model}", connection)  # answers are kept by model, whatever the address


def in_this_process(settings: Settings) -> Settings:
    """Folders speak here, as a server for rollouts has one model's weights, and a training may be using them."""
    return settings.model_copy(update={"rollout": settings.rollout.model_copy(update={"sampler": "transformers"})})


def is_served(policy: str) -> bool:
    """Whether `policy` is a chat endpoint's."""
    return any(policy.startswith(kind) and len(policy) > len(kind) for kind in (OPENAI, VLLM))


def refuse_served(policy: str) -> None:
    """Raise ValueError for a policy that cannot be trained or saved."""
    if is_served(policy):
        name = without_secrets(policy)
        raise ValueError(
            f"{name} is a chat endpoint, which gives text and no tokens: it can be scored (`rlver converse --policy {name}`), not "
            "trained; name a model folder or a hub model"
        )


def policy_location(policy: str) -> str:
    """Where a policy is loaded from: `hf:NAME` is a folder or a hub name, SOURCE:NAME of a registered source; else a folder that exists."""
    refuse_served(policy)
    if policy.startswith(HUB) and len(policy) > len(HUB):
        return policy.removeprefix(HUB)
    source, _, name = policy.partition(":")
    if not Path(policy).is_dir() and not (name and MODELS.has(source)):
        raise BadFile(f"{policy}: no such model folder (a model of the hub is written {HUB}NAME, one behind a server {OPENAI}MODEL)")
    return policy


def _at_address(url: str, settings: Settings) -> Connection:
    """To the only model of the server at `url`."""
    from rlver.tasks.runtime.connections import to_policy

    if not url.startswith(("http://", "https://")):
        raise ValueError(
            f"{VLLM}{without_secrets(url)}: expected a server's address, as {VLLM}http://127.0.0.1:7400/v1; a model's name goes behind {OPENAI}"
        )
    connection = to_policy(settings, [], url)
    if connection.replay:
        raise ValueError(f"a replay asks no server which model it has: write {OPENAI}MODEL, the one that was recorded")
    models = connection.listed()
    if len(models) != 1:
        has = f"has {len(models)} models, for example {models[0]}" if models else "lists no models (its address usually ends in /v1)"
        raise ValueError(f"{url} {has}: put RLVER_POLICY_URL={url} into .env and write {OPENAI}MODEL")
    return replace(connection, models=models)
