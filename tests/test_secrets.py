"""Keys and passwords: where they are not sent, not shown and not written."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from scripted_server import Asked, Reply, ask, good, parameters, serving

from rlver.components.endpoint.chat import EndpointError
from rlver.components.endpoint.opening import open_endpoint
from rlver.tasks.runtime import environment, servers


def test_a_redirect_takes_the_key_nowhere(tmp_path: Path) -> None:
    secret = "sk-0123456789abcdef0123"

    async def run() -> tuple[int, list[Asked]]:
        async with serving(lambda _, asked: good(asked)) as elsewhere:
            away = (("Location", f"{elsewhere.url}/chat/completions"),)
            async with serving(lambda *_: Reply(307, b"", away)) as server:
                async with open_endpoint(parameters(server.url, attempts=1), lambda: secret, tmp_path / "answers.db", False) as endpoint:
                    with pytest.raises(EndpointError, match="HTTP 307"):
                        await endpoint.chat(ask("hello"))
                return len(server.asked), elsewhere.asked

    asked, elsewhere = asyncio.run(run())
    assert asked == 1 and elsewhere == []


def test_hostile_text_is_cleaned_of_passwords_in_no_time() -> None:
    began = time.process_time()
    for text in ("://" * 33_000, "://a:" * 20_000, "?pass" * 20_000, "?" * 100_000, "http://" + "@" * 100_000, "://" + ":" * 100_000):
        environment.shown(text)
    assert time.process_time() - began < 3


def test_a_tracker_that_is_away_does_not_tell_its_password() -> None:
    from mlflow.exceptions import MlflowException

    from rlver.tasks.tracking.store import TrackingUnavailable, readable

    with pytest.raises(TrackingUnavailable) as error, readable():
        raise MlflowException("API request to http://me:pass@host/api failed")
    assert "pass" not in str(error.value) and "host/api" in str(error.value)


def test_no_address_of_a_database_is_in_a_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planned: list[servers.PlannedServer] = []

    class Seen(Exception):
        pass

    def look(one: servers.PlannedServer) -> None:
        planned.append(one)
        raise Seen

    monkeypatch.setattr(servers, "serving", look)
    with pytest.raises(Seen), servers.mlflow(tmp_path, "postgresql://u:hunter2@db/mlflow", 5000):
        pass
    with pytest.raises(Seen), servers.prefect(tmp_path, 4200):
        pass
    assert len(planned) == 2
    for one in planned:
        assert "hunter2" not in " ".join(one.command)
        assert one.command[one.command.index("--host") + 1] == "127.0.0.1"
