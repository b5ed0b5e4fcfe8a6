"""A hostile server behind a chat endpoint or in a policy server's place gets no key that is not its own, and no message shows a password."""

from __future__ import annotations

from pathlib import Path

import pytest
from hostile_endpoint import MODEL, chat_process, chat_project, only_model
from scripted_server import KEY, Asked, Reply, serving_beside

from rlver.components.policy.policy_server import PolicyServer, PolicyServerFailed, PolicyServerUnavailable
from rlver.components.settings.settings import load_settings
from rlver.flows.cli import main
from rlver.tasks.runtime import environment
from rlver.tasks.runtime.connections import to_user
from rlver.tasks.runtime.policies import refuse_served


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repository_root: Path) -> Path:
    return chat_project(tmp_path, monkeypatch, repository_root)


def keys_sent(asked: list[Asked]) -> set[str | None]:
    assert asked
    return {one.headers.get("authorization") for one in asked}


# A key belongs to the origin it was set for.


def test_the_key_of_one_server_is_not_sent_to_another_that_is_named_on_the_command_line(
    project: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with serving_beside(only_model) as own, serving_beside(only_model) as other:
        (project / ".env").write_text(f"RLVER_POLICY_URL={own.url}\nRLVER_POLICY_KEY={KEY}\n")
        assert main(["converse", "--policy", f"vllm:{other.url}", "-o", "a.jsonl", "--limit", "1"]) == 0
    assert keys_sent(other.asked) == {None} and own.asked == []
    said = [line for line in caplog.messages if "RLVER_POLICY_KEY" in line]
    places = (own.url.removesuffix("/v1"), other.url.removesuffix("/v1"))
    assert len(said) == 1 and all(place in said[0] for place in places) and KEY not in said[0]


@pytest.mark.slow
def test_a_key_that_is_left_out_is_said_in_one_line(project: Path) -> None:
    with serving_beside(only_model) as own, serving_beside(only_model) as other:
        (project / ".env").write_text(f"RLVER_POLICY_URL={own.url}\nRLVER_POLICY_KEY={KEY}\n")
        done = chat_process(None, b"hello\n", "utf-8", "--policy", f"vllm:{other.url}")
    said = done.stderr.decode().splitlines()
    assert done.returncode == 0 and len(said) == 1 and said[0].startswith("RLVER_POLICY_KEY was set for http://127.0.0.1:"), said
    assert keys_sent(other.asked) == {None} and own.asked == []


@pytest.mark.parametrize("role", ["user", "policy"])
@pytest.mark.parametrize(
    ("url", "gets_it"),
    [
        ("https://api.example/v1", True),
        ("HTTPS://API.EXAMPLE:443/other", True),
        ("http://api.example/v1", False),
        ("https://api.example:8443/v1", False),
        ("https://api.example.evil.test/v1", False),
        ("https://evil.test/api.example/v1", False),
        ("https://evil.test\\.api.example/v1", False),
        ("https://api.example./v1", False),
    ],
)
def test_an_origin_is_scheme_host_and_port(project: Path, role: environment.Role, url: str, gets_it: bool) -> None:
    (project / ".env").write_text(f"RLVER_{role.upper()}_URL=https://api.example/v1\nRLVER_{role.upper()}_KEY={KEY}\n")
    server = environment.chat_server(role, url=url)
    assert (server.key(), server.key_left_out is None) == ((KEY, True) if gets_it else (None, False))


def test_a_key_of_the_file_does_not_follow_an_address_of_the_process(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also after `prepare`, which copies what is missing from the file into the process: for the children, both are of the process then."""
    settings = load_settings(project / "params.yaml")
    with serving_beside(only_model) as own, serving_beside(only_model) as other:
        (project / ".env").write_text(f"RLVER_USER_URL={own.url}\nRLVER_USER_KEY={KEY}\n")
        monkeypatch.setenv("RLVER_USER_URL", other.url)
        assert to_user(settings, []).listed() == [MODEL]
        environment.prepare(project)
        assert to_user(settings, []).listed() == [MODEL]
        assert keys_sent(other.asked) == {None} and own.asked == []
        monkeypatch.setenv("RLVER_USER_KEY", "sk-the-key-of-the-other-one")
        assert to_user(settings, []).listed() == [MODEL]
        assert keys_sent(other.asked[2:]) == {"Bearer sk-the-key-of-the-other-one"}, "what is set together belongs together"


# Passwords in addresses.

PASSWORD = "hunter2"


@pytest.mark.parametrize("login", [f"me:{PASSWORD}", f"me:a@{PASSWORD}", f":{PASSWORD}", PASSWORD])
def test_the_password_of_a_policy_server_is_not_shown(login: str) -> None:
    with serving_beside(lambda number, asked: Reply(404, b"{}")) as server:
        url = server.url.replace("http://", f"http://{login}@").removesuffix("/v1")
        with pytest.raises((PolicyServerFailed, PolicyServerUnavailable)) as answered:
            PolicyServer(url).version()
    with pytest.raises((PolicyServerFailed, PolicyServerUnavailable)) as gone:
        PolicyServer(url).version()
    for said in (str(answered.value), str(gone.value)):
        assert "http://[hidden]@127.0.0.1:" in said and PASSWORD not in said


def test_the_state_of_a_policy_server_is_shown_without_its_password(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    body = b'{"weight_version": "v1", "is_paused": false}'
    with serving_beside(lambda number, asked: Reply(body=body)) as server:
        monkeypatch.setenv("RLVER_POLICY_SERVER_URL", server.url.replace("http://", f"http://me:{PASSWORD}@").removesuffix("/v1"))
        assert main(["serve", "status"]) == 0
    assert main(["serve", "status"]) == 1
    said = capsys.readouterr()
    assert PASSWORD not in said.out + said.err and "[hidden]@127.0.0.1" in said.out and "[hidden]@127.0.0.1" in said.err


@pytest.mark.parametrize("url", ["http://a b/", "http://[zz]/", "ftp://x", "nonsense", "http://h\t/", "http://h:0"])
def test_an_address_of_a_policy_server_that_is_none_is_said_in_one_line(url: str) -> None:
    with pytest.raises(PolicyServerFailed, match=r"must look like http://127\.0\.0\.1:7400"):
        PolicyServer(url).version()


def test_a_chat_endpoint_that_cannot_be_trained_is_named_without_its_password() -> None:
    with pytest.raises(ValueError, match="can be scored") as caught:
        refuse_served(f"vllm:http://me:{PASSWORD}@127.0.0.1/v1")
    assert PASSWORD not in str(caught.value)


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        (f"postgresql://me:a@{PASSWORD}@db/mlflow", "postgresql://[hidden]@db/mlflow"),
        (f"postgresql://me:a/{PASSWORD}@db/mlflow", "postgresql://[hidden]@db/mlflow"),
        (f"postgresql://db/mlflow?user=me&password={PASSWORD}&x=1", "postgresql://db/mlflow?user=me&password=[hidden]&x=1"),
        (f"https://host/v1?API_KEY={PASSWORD}", "https://host/v1?API_KEY=[hidden]"),
        (f"http://me:{PASSWORD}@host:5000/x and sqlite:////a@b", "http://[hidden]@host:5000/x and sqlite:////a@b"),
        ("http://host:5000/@scope/x", "http://host:5000/@scope/x"),
    ],
)
def test_an_address_is_shown_without_its_secrets_however_they_are_written(address: str, shown: str) -> None:
    assert environment.shown(address) == shown


def test_no_error_of_a_command_shows_a_password_whoever_wrote_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As of a library that quotes the address that it was given."""

    def fails(*_: object) -> None:
        raise OSError(f"cannot connect to http://me:{PASSWORD}@host/api")

    monkeypatch.setattr(environment, "project_root", fails)
    assert main(["serve", "status"]) == 1
    said = capsys.readouterr().err
    assert "http://[hidden]@host/api" in said and PASSWORD not in said
