"""A vLLM server that speaks for a policy under training: which weights it has, and how it gets new ones.

New weights come behind a barrier: requests under way finish with the old weights, later ones wait, and only when every worker says that
it has the new ones does the server go on. It then names them with every token it samples, so that no other can pass for theirs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from components.policy.weights import version_of

TIMEOUT_S = 600.0  # one turn with its wait for a place in the batch; or weights, after the requests under way and read from a disk


class PolicyServerUnavailable(ConnectionError):
    """Nobody answers at the address; the same command may succeed later."""


class PolicyServerFailed(RuntimeError):
    """The server answers, but not as it must; the message says what to do."""


@dataclass(frozen=True)
class PolicyServer:
    """The vLLM server at `url` (without /v1). It must have been started with what `rlver serve start` starts it with."""

    url: str

    def version(self) -> str:
        """The weights it has, as `take` named them; `default` before that."""
        return str(self._get("/weight_info")["weight_version"])

    def is_paused(self) -> bool:
        return bool(self._get("/is_paused")["is_paused"])

    def take(self, folder: Path) -> str:
        """Make the server take over the weights in `folder`, which it must see under the same path, and return their version.

        Raises PolicyServerUnavailable and PolicyServerFailed; after a failure the server names its weights `taking …`, which no
        sampler accepts.
        """
        version = version_of(folder)
        with httpx.Client(**connection(self.url)) as client:
            self._post(client, "/pause?mode=wait")
            try:
                self._post(client, "/update_weight_version", {"new_version": f"taking {version}"})
                took = self._post(client, "/collective_rpc", {"method": "take_weights", "args": [str(folder), version]})["results"]
                if not took or set(took) != {version}:
                    raise PolicyServerFailed(f"{self.url}: its workers were to take the weights {version}; they say {took}; restart it")
                if not self._post(client, "/reset_prefix_cache")["success"]:
                    raise PolicyServerFailed(f"{self.url}: what it had read with the old weights could not be forgotten; restart it")
                self._post(client, "/update_weight_version", {"new_version": version})
            finally:
                self._post(client, "/resume")
        return version

    def _post(self, client: httpx.Client, path: str, content: Mapping[str, Any] | None = None) -> Any:
        try:
            return answer(self.url, path, client.post(path, json=content))
        except httpx.TransportError as error:
            raise PolicyServerUnavailable(unavailable(self.url, error)) from error

    def _get(self, path: str) -> Any:
        try:
            with httpx.Client(**connection(self.url)) as client:
                return answer(self.url, path, client.get(path))
        except httpx.TransportError as error:
            raise PolicyServerUnavailable(unavailable(self.url, error)) from error


def connection(url: str) -> dict[str, Any]:
    """How httpx is to talk to a policy server; reading certificates takes a while and is for https alone."""
    return {"base_url": url, "timeout": TIMEOUT_S, "trust_env": False, "verify": url.startswith("https:")}


def unavailable(url: str, error: Exception) -> str:
    return f"the policy server at {url} does not answer ({type(error).__name__}: {error}); see `rlver serve status`"


def answer(url: str, path: str, response: httpx.Response) -> Any:
    """The JSON of a good answer. Raises PolicyServerFailed for any other."""
    if response.status_code == httpx.codes.NOT_FOUND:
        raise PolicyServerFailed(
            f"{url}{path}: no such address; the server must be vLLM 0.32 or newer with VLLM_SERVER_DEV_MODE=1 and our worker extension, as "
            "`rlver serve start` starts it"
        )
    try:
        response.raise_for_status()
        return response.json()
    except (httpx.HTTPStatusError, ValueError) as error:
        said = " ".join(response.text.split())[:300]
        raise PolicyServerFailed(f"{url}{path}: expected JSON and status 200, got {response.status_code}: {said}; see its log") from error
