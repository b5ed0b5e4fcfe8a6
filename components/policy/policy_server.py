"""A vLLM server that speaks for a policy under training: which weights it has, and how it gets new ones.

New weights come behind a barrier: requests under way finish with the old weights, later ones wait, and only when every worker says that
it has the new ones does the server go on. It then names them with every token it samples, so that no other can pass for theirs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from rlver.components.domain.printable import one_line, without_secrets
from rlver.components.endpoint.address import origin
from rlver.components.endpoint.bodies import PLAIN, UnusableBody, WholeResponse, read_now
from rlver.components.endpoint.chat import SHORT_REPR
from rlver.components.policy.weights import version_of

TIMEOUT_S = 600.0  # one turn with its wait for a place in the batch; or weights, after the requests under way and read from a disk
MOST_BYTES = 16 * 2**20  # of one answer: a hundred thousand tokens with their log-probabilities
_QUOTED_CHARACTERS = 300


class PolicyServerUnavailable(ConnectionError):
    """Nobody answers at the address; the same command may succeed later."""


class PolicyServerFailed(RuntimeError):
    """The server answers, but not as it must; the message says what to do."""


@dataclass(frozen=True)
class PolicyServer:
    """The vLLM server at `url` (without /v1), which wants `key`. It must have been started with what `rlver serve start` starts it with."""

    url: str
    key: str | None = field(default=None, repr=False)

    def version(self) -> str:
        """The weights it has, as `take` named them; `default` before that."""
        return str(self._field(self._get("/weight_info"), "weight_version", str))

    def is_paused(self) -> bool:
        return bool(self._field(self._get("/is_paused"), "is_paused", bool))

    def take(self, folder: Path) -> str:
        """Make the server take over the weights in `folder`, which it must see under the same path, and return their version.

        Raises PolicyServerUnavailable and PolicyServerFailed; after a failure the server names its weights `taking …`, which no
        sampler accepts.
        """
        version = version_of(folder)
        with self._renewing(version) as client:
            self._workers_say(client, version, "take_weights", str(folder), version)
        return version

    def take_adapters(self, folder: Path) -> str:
        """The same of the adapters in `folder` for a server that has their base. Their version is the model's name in requests.

        A server that does not see the disk, or has lost them, then samples with no others in their place.
        """
        version = version_of(folder)
        with self._renewing(version) as client:
            for model in self._field(self._ask(client, "GET", "/v1/models"), "data", list):
                if isinstance(model, dict) and model.get("parent"):  # adapters, not the base
                    self._post(client, "/v1/unload_lora_adapter", {"lora_name": model.get("id")}, is_json=False)
            self._workers_say(client, version, "version_here", str(folder))
            self._post(client, "/v1/load_lora_adapter", {"lora_name": version, "lora_path": str(folder)}, is_json=False)
            self._workers_say(client, version, "version_here", str(folder))
        return version

    @contextmanager
    def _renewing(self, version: str) -> Iterator[httpx.Client]:
        """The barrier: nothing is sampled inside, and what is sampled after it is named `version`."""
        with httpx.Client(**connection(self.url, self.key)) as client:
            self._post(client, "/pause?mode=wait")
            try:
                self._post(client, "/update_weight_version", {"new_version": f"taking {version}"})
                yield client
                if not self._field(self._post(client, "/reset_prefix_cache"), "success", bool):
                    raise PolicyServerFailed(
                        f"{without_secrets(self.url)}: what it had read with the old weights could not be forgotten; restart it"
                    )
                self._post(client, "/update_weight_version", {"new_version": version})
            except BaseException as error:
                try:
                    self._post(client, "/resume")
                except (PolicyServerUnavailable, PolicyServerFailed) as second:  # the first is the cause
                    error.add_note(f"nor does it go on: {second}")
                raise
            self._post(client, "/resume")

    def _workers_say(self, client: httpx.Client, version: str, method: str, *arguments: str) -> None:
        """Raise PolicyServerFailed unless each worker answers with the version."""
        said = self._post(client, "/collective_rpc", {"method": method, "args": list(arguments)})
        took = self._field(said, "results", list)
        if not took or any(one != version for one in took):
            raise PolicyServerFailed(
                f"{without_secrets(self.url)}: its workers were to take the weights {version}; they say {quoted(took)}; restart it"
            )

    def _get(self, path: str) -> Any:
        with httpx.Client(**connection(self.url, self.key)) as client:
            return self._ask(client, "GET", path)

    def _post(self, client: httpx.Client, path: str, content: Mapping[str, Any] | None = None, is_json: bool = True) -> Any:
        return self._ask(client, "POST", path, content, is_json)

    def _ask(self, client: httpx.Client, method: str, path: str, content: Mapping[str, Any] | None = None, is_json: bool = True) -> Any:
        """The JSON of a good answer; of one that is no JSON, nothing."""
        try:
            with client.stream(method, path, json=content) as response:
                whole = read_now(response, MOST_BYTES)
        except UnusableBody as error:
            raise PolicyServerFailed(f"{without_secrets(self.url)}{path}: {error}; is it our policy server?") from error
        except httpx.TransportError as error:
            raise PolicyServerUnavailable(unavailable(self.url, error)) from error
        return answer(self.url, path, whole, is_json)

    def _field(self, said: Any, name: str, kind: type) -> Any:
        if not isinstance(said, dict) or not isinstance(said.get(name), kind):
            raise PolicyServerFailed(
                f"{without_secrets(self.url)}: expected an answer with {name}, got {quoted(said)}; is it vLLM 0.32 or newer?"
            )
        return said[name]


def connection(url: str, key: str | None) -> dict[str, Any]:
    """How httpx is to talk to a policy server; reading certificates takes a while and is for https alone. Raises PolicyServerFailed."""
    if (address := origin(url)) is None:
        raise PolicyServerFailed(f"{without_secrets(url)}: the address of a policy server must look like http://127.0.0.1:7400")
    headers = {**PLAIN, "Authorization": f"Bearer {key}"} if key else PLAIN
    return {"base_url": url, "headers": headers, "timeout": TIMEOUT_S, "trust_env": False, "verify": address.startswith("https:")}


def unavailable(url: str, error: Exception) -> str:
    return f"the policy server at {without_secrets(url)} does not answer ({type(error).__name__}: {error}); see `rlver serve status`"


def quoted(said: Any) -> str:
    """The beginning of what a server said, as one printable line."""
    return one_line(said if isinstance(said, str) else SHORT_REPR.repr(said))[:_QUOTED_CHARACTERS]


def answer(url: str, path: str, response: WholeResponse, is_json: bool = True) -> Any:
    """The JSON of a good answer, or None of one that is to be none. Raises PolicyServerFailed for any other."""
    if response.status_code == httpx.codes.NOT_FOUND and path.endswith("_lora_adapter"):
        raise PolicyServerFailed(
            f"{without_secrets(url)}{path}: no such address, or no such adapter; for rollout.push: adapters the server needs --enable-lora and "
            f"VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 (docs/vllm.md): {quoted(response.content.decode(errors='replace'))}"
        )
    if response.status_code == httpx.codes.NOT_FOUND:
        raise PolicyServerFailed(
            f"{without_secrets(url)}{path}: no such address; the server must be vLLM 0.32 or newer with VLLM_SERVER_DEV_MODE=1 and our "
            "worker extension, as `rlver serve start` starts it"
        )
    if response.status_code == httpx.codes.UNAUTHORIZED:
        raise PolicyServerFailed(
            f"{without_secrets(url)}: the server does not take our key: set RLVER_POLICY_SERVER_KEY to its key, beside "
            "RLVER_POLICY_SERVER_URL in .env"
        )
    try:
        if response.is_success:
            return json.loads(response.content) if is_json else None
    except (ValueError, RecursionError):
        pass  # said below, as a bad status is
    said = one_line(response.content[:_QUOTED_CHARACTERS].decode("utf-8", "replace"))
    raise PolicyServerFailed(f"{without_secrets(url)}{path}: expected JSON and status 200, got {response.status_code}: {said}; see its log")
