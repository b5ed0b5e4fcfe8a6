"""A vLLM server that speaks for a policy under training: which weights it has, and how it gets new ones.

New weights come behind a barrier: requests under way finish with the old weights, later ones wait, and only when every worker says that
it has the new ones does the server go on. It then names them with every token it samples, so that no other can pass for theirs.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from components.policy.weights import version_of

TIMEOUT_S = 600.0  # the requests under way are waited for, and large weights are read


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
        return str(self._call("GET", "/weight_info")["weight_version"])

    def is_paused(self) -> bool:
        return bool(self._call("GET", "/is_paused")["is_paused"])

    def take(self, folder: Path) -> str:
        """Make the server take over the weights in `folder`, which it must see under the same path, and return their version.

        Raises PolicyServerUnavailable and PolicyServerFailed; after a failure the server names its weights `taking …`, which no
        sampler accepts.
        """
        version = version_of(folder)
        self._call("POST", "/pause", params={"mode": "wait"})
        try:
            self._name(f"taking {version}")
            took = self._call("POST", "/collective_rpc", json={"method": "take_weights", "args": [str(folder), version]})["results"]
            if not took or set(took) != {version}:
                raise PolicyServerFailed(f"{self.url}: asked for weights {version}, its workers took {took}")
            if not self._call("POST", "/reset_prefix_cache")["success"]:
                raise PolicyServerFailed(f"{self.url}: what it had read with the old weights could not be forgotten; restart it")
            self._name(version)
        finally:
            self._call("POST", "/resume")
        return version

    def _name(self, version: str) -> None:
        self._call("POST", "/update_weight_version", json={"new_version": version})

    def _call(self, method: str, path: str, **content: Any) -> Any:
        try:
            response = httpx.request(method, self.url + path, timeout=TIMEOUT_S, trust_env=False, **content)
        except httpx.TransportError as error:
            raise PolicyServerUnavailable(unavailable(self.url, error)) from error
        return answer(self.url, path, response)


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
