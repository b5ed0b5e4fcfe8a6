"""Sampling by a vLLM server over HTTP: token ids in, token ids, their log-probabilities and the weights they were sampled with out.

The address is vLLM's /inference/v1/generate, not /v1/completions: it alone says with which weights each token was sampled.
The log-probabilities are those of the distribution that was drawn from, after temperature and top_p (the server's
`--logprobs-mode processed_logprobs`). A seed decides what is drawn up to rounding: which requests share a batch moves the last
digits of the logits.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from rlver.components.domain.printable import without_secrets
from rlver.components.endpoint.bodies import UnusableBody, WholeResponse, read
from rlver.components.policy.policy_server import (
    MOST_BYTES,
    PolicyServer,
    PolicyServerFailed,
    PolicyServerUnavailable,
    answer,
    connection,
    quoted,
    unavailable,
)
from rlver.components.policy.sampler import Sample, SampleRequest

GENERATE = "/inference/v1/generate"
ATTEMPTS = 4
FIRST_PAUSE_S = 0.25  # before the second attempt; doubles


class StaleWeights(PolicyServerFailed):
    """A turn was sampled with other weights than those the server was given."""


@dataclass
class VllmSampler:
    """Samples at `temperature` and `top_p` from the server at `url`; temperature 0 is greedy, with log-probabilities of 0.

    `weights` puts the policy's present weights into a folder and names it, or its `adapters` alone, for a server that has the base. At most
    `connections` requests are under way.
    """

    url: str
    end_of_turn: int
    temperature: float
    top_p: float
    connections: int
    weights: Callable[[], Path]
    key: str | None = field(default=None, repr=False)
    adapters: bool = False
    _version: str | None = None
    _client: httpx.AsyncClient | None = None

    def start(self) -> None:
        """Give the server the present weights; call before the first dialogue and after every change of the weights."""
        server = PolicyServer(self.url, self.key)
        self._version = (server.take_adapters if self.adapters else server.take)(self.weights().resolve())

    async def sample(self, request: SampleRequest) -> Sample:
        """Raises PolicyServerUnavailable after a few attempts, PolicyServerFailed, and StaleWeights."""
        if self._version is None:
            raise RuntimeError("VllmSampler.start() was not called")
        response = await self.ask(json.dumps(self.body(request)).encode())
        sample, version = parse_sample(answer(self.url, GENERATE, response), self.end_of_turn, greedy=self.temperature == 0)
        if version != self._version:
            raise StaleWeights(
                f"{without_secrets(self.url)}: {request.dialogue_id} was sampled with the weights {quoted(version)}, not {self._version}; "
                "a policy server serves one run at a time"
            )
        return sample

    def forget(self, dialogue_id: str) -> None:
        """The server forgets by itself what it has not used for long."""

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    def body(self, request: SampleRequest) -> dict[str, Any]:
        """Every number of the sampling, so that no default of the server or of the model's files applies."""
        return {
            **({"model": self._version} if self.adapters else {}),
            "token_ids": request.context_ids,
            "sampling_params": {
                "seed": request.seed,
                "max_tokens": request.max_tokens,
                "temperature": self.temperature,
                "top_p": self.top_p,
                "top_k": 0,
                "min_p": 0.0,
                "repetition_penalty": 1.0,
                "presence_penalty": 0.0,
                "frequency_penalty": 0.0,
                "stop_token_ids": [self.end_of_turn],
                "ignore_eos": True,
                "logprobs": 0,
                "detokenize": False,
            },
        }

    async def ask(self, body: bytes) -> WholeResponse:
        """Raises PolicyServerUnavailable after a few attempts, and PolicyServerFailed."""
        if self._client is None:
            limits = httpx.Limits(max_connections=self.connections, max_keepalive_connections=self.connections)
            self._client = httpx.AsyncClient(limits=limits, **connection(self.url, self.key))
        for attempt in range(ATTEMPTS):
            try:
                async with self._client.stream("POST", GENERATE, content=body, headers={"Content-Type": "application/json"}) as response:
                    return await read(response, MOST_BYTES)
            except UnusableBody as error:
                raise PolicyServerFailed(f"{without_secrets(self.url)}{GENERATE}: {error}; is it our policy server?") from error
            except httpx.TransportError as error:
                if attempt == ATTEMPTS - 1:
                    raise PolicyServerUnavailable(unavailable(self.url, error)) from error
                await asyncio.sleep(FIRST_PAUSE_S * 2**attempt)
        raise AssertionError("unreachable")


def parse_sample(body: Any, end_of_turn: int, greedy: bool) -> tuple[Sample, str]:
    """The sample in an answer of /inference/v1/generate, and the version of the weights that made it.

    Raises PolicyServerFailed when it is incomplete, and StaleWeights when the weights changed in the middle of it.
    """
    try:
        choice = body["choices"][0]
        token_ids = tuple(_token(token) for token in choice["token_ids"])
        logprobs = tuple(float(content["logprob"]) for content in choice["logprobs"]["content"])
        versions = [span["version"] for span in choice["weight_versions"]]
        reason = choice["finish_reason"]
    except (KeyError, IndexError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise PolicyServerFailed(f"expected token ids, log-probabilities and versions of weights, got {quoted(body)}") from error
    if reason not in ("stop", "length") or not token_ids or len(token_ids) != len(logprobs):
        raise PolicyServerFailed(
            f"expected a finished turn, got {len(token_ids)} tokens, {len(logprobs)} of them scored, finish_reason {quoted(reason)}"
        )
    if not all(map(math.isfinite, logprobs)):
        raise PolicyServerFailed("log-probabilities that are not finite: the weights are broken, or the training diverged; take other ones")
    if len(versions) != 1:
        raise StaleWeights(
            f"the weights changed in the middle of a turn: {', '.join(map(quoted, versions)) or 'no version'}; give each run a vLLM server of its own"
        )
    return Sample(token_ids, (0.0,) * len(token_ids) if greedy else logprobs, token_ids[-1] == end_of_turn), versions[0]


def _token(value: Any) -> int:
    """Raises TypeError for what is no id of a token."""
    if type(value) is not int or not 0 <= value < 2**31:  # a bool is an int to isinstance
        raise TypeError("no token id")
    return value
