"""The server of a policy: whom its certificate is asked of, and what is told when new weights are not taken."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
from scripted_vllm import ScriptedVllm, sampled, serving

from rlver.components.policy.policy_server import PolicyServer, PolicyServerFailed, PolicyServerUnavailable, connection


@pytest.mark.parametrize(
    ("url", "verified"),
    [("https://host:7400", True), ("HTTPS://host:7400", True), ("Https://host", True), ("http://host:7400", False), ("HTTP://host", False)],
)
def test_a_certificate_is_asked_for_however_https_is_written(url: str, verified: bool) -> None:
    assert connection(url, "sk-secret")["verify"] is verified


@pytest.mark.parametrize("kind", [KeyboardInterrupt, PolicyServerFailed])
@pytest.mark.parametrize("second", [PolicyServerUnavailable("gone"), PolicyServerFailed("broken")])
def test_a_server_that_does_not_go_on_hides_no_cause(
    kind: type[BaseException], second: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cause, asked = kind("the weights were not taken"), list[str]()

    def post(server: PolicyServer, client: httpx.Client, path: str, content: Any = None) -> Any:
        asked.append(path)
        if path == "/collective_rpc":
            raise cause
        if path == "/resume":
            raise second
        return {}

    monkeypatch.setattr(PolicyServer, "_post", post)
    with pytest.raises(kind) as caught:
        PolicyServer("http://127.0.0.1:9").take(tmp_path)
    assert caught.value is cause and asked[-1] == "/resume"
    assert caught.value.__notes__ == [f"nor does it go on: {second}"]


def test_a_server_that_has_new_weights_and_does_not_go_on_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = PolicyServer._post

    def post(server: PolicyServer, client: httpx.Client, path: str, content: Any = None) -> Any:
        if path == "/resume":
            raise PolicyServerFailed("broken")
        return whole(server, client, path, content)

    monkeypatch.setattr(PolicyServer, "_post", post)
    with serving(ScriptedVllm(lambda body, vllm: sampled([], [], []))) as vllm, pytest.raises(PolicyServerFailed, match="broken"):
        PolicyServer(vllm.url).take(tmp_path)
