"""The seam between a project and its chat endpoints: addresses, keys, budget, files, and what several openings have in common."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from llm_project import served
from scripted_server import KEY, MODEL, Asked, Reply, ask, error, good

from rlver.components.domain.files import BadFile
from rlver.components.endpoint.chat import BudgetExceeded, ChatAnswer, NotRecorded
from rlver.components.settings.settings import Settings, load_settings
from rlver.tasks.runtime import connections, environment, options
from rlver.tasks.runtime.stage import costs_file, write_costs

URL = "http://127.0.0.1:8100/v1"
NAMES = ("RLVER_USER_URL", "RLVER_USER_KEY", "RLVER_POLICY_URL", "RLVER_POLICY_KEY", "RLVER_REPLAY", "RLVER_BUDGET")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project without any address; the current directory."""
    (tmp_path / "dvc.yaml").write_text("stages: {}\n")
    monkeypatch.chdir(tmp_path)
    for name in NAMES:
        monkeypatch.setenv(name, "")
    return tmp_path


def test_an_experiment_of_dvc_keeps_its_answers_in_the_project(
    repository_root: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DVC takes the folder of an experiment away: what was paid for must not go with it, and one budget holds for all."""
    monkeypatch.setenv("RLVER_USER_URL", URL)
    assert connections.to_user(settings(repository_root)).answers == Path("answers/user.db")
    worktree = project / ".dvc" / "tmp" / "exps" / "tmpab12"
    worktree.mkdir(parents=True)
    monkeypatch.chdir(worktree)
    assert connections.to_user(settings(repository_root)).answers == project / "answers" / "user.db"


def test_a_folder_below_the_project_s_uses_its_answers(repository_root: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLVER_USER_URL", URL)
    (project / "dvc.yaml").write_text("stages: {}\n")
    (project / "evaluations").mkdir()
    monkeypatch.chdir(project / "evaluations")
    assert connections.to_user(settings(repository_root)).answers == project / "answers" / "user.db"


def settings(repository_root: Path, **endpoint: Any) -> Settings:
    loaded = load_settings(repository_root / "params.yaml").model_dump()
    loaded["simulator"] |= {"kind": "llm"}
    for part in ("appraiser", "speaker"):
        loaded["simulator"]["llm"][part]["model"] = MODEL
    loaded["endpoint"] |= {"attempts": 2, "backoff_first_s": 0.01, "prices": {MODEL: {"million_in": 1.0, "million_out": 2.0}}} | endpoint
    return Settings.model_validate(loaded)


def talk(connection: connections.Connection, *questions: str) -> list[ChatAnswer | BaseException]:
    """One opening of the connection, in an event loop of its own."""

    async def run() -> list[ChatAnswer | BaseException]:
        async with connection:
            return await asyncio.gather(*(connection.chat(ask(question)) for question in questions), return_exceptions=True)

    return asyncio.run(run())


def test_addresses_and_keys_come_from_the_process_or_from_dotenv_and_the_process_wins(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / ".env").write_text(f"RLVER_USER_URL={URL}\nRLVER_USER_KEY='of the file'\nRLVER_POLICY_URL=http://127.0.0.1:8200/v1\n")
    user = environment.chat_server("user")
    assert (user.url, user.key_variable, user.key()) == (URL, "RLVER_USER_KEY", "of the file")
    policy = environment.chat_server("policy")
    assert (policy.url, policy.key()) == ("http://127.0.0.1:8200/v1", None), "a role does not borrow the other's key"
    monkeypatch.setenv("RLVER_USER_KEY", "of the process")
    assert user.key() == "of the process", "read anew each time"
    assert "of the process" not in repr(user)
    monkeypatch.setenv("RLVER_USER_URL", "http://127.0.0.1:8300/v1")
    below = project / "a" / "b"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    assert environment.chat_server("user").url == "http://127.0.0.1:8300/v1"
    assert environment.chat_server("policy").url == "http://127.0.0.1:8200/v1", ".env stands in the project's root"


def test_without_an_address_the_variable_is_named_and_a_replay_needs_none(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(environment.NoServer, match=r"put RLVER_POLICY_URL=\S+ into .env \(and RLVER_POLICY_KEY, where it needs one\)"):
        environment.chat_server("policy")
    environment.limit_endpoints(None, replay=True)
    assert environment.replays() and environment.chat_server("policy").url


@pytest.mark.parametrize("address", ["127.0.0.1:8100/v1", "http://me:secret@127.0.0.1/v1", "http://127.0.0.1/v1?key=secret", "ftp://x/v1"])
def test_an_address_that_cannot_be_one_is_named_by_its_variable_and_not_repeated(
    project: Path, repository_root: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setenv("RLVER_USER_URL", address)
    with pytest.raises(ValueError, match="RLVER_USER_URL: the address of an endpoint must") as caught:
        connections.to_user(settings(repository_root))
    assert "secret" not in str(caught.value)


def test_a_budget_on_the_command_line_replaces_that_of_the_parameters(
    project: Path, repository_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RLVER_USER_URL", URL)
    numbers = settings(repository_root, budget=3.0)
    assert connections.to_user(numbers).parameters.budget == 3.0
    environment.limit_endpoints(0.0)
    assert connections.to_user(numbers).parameters.budget == 0.0, "no money is an amount too"
    for nonsense in ("much", "-1", "nan"):
        monkeypatch.setenv("RLVER_BUDGET", nonsense)
        with pytest.raises(ValueError, match=r"the budget \(--budget, RLVER_BUDGET\) must be an amount of money, 0 or more"):
            connections.to_user(numbers)


def test_budget_and_replay_of_dotenv_hold_for_the_address_of_dotenv(
    project: Path, repository_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / ".env").write_text(f"RLVER_USER_URL={URL}\nRLVER_BUDGET=0\nRLVER_REPLAY=1\n")
    connection = connections.to_user(settings(repository_root, budget=3.0))
    assert connection.parameters.base_url == URL
    assert connection.parameters.budget == 0.0 and connection.replay


def test_a_budget_needs_the_price_of_every_model_before_anybody_is_asked(
    project: Path, repository_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RLVER_USER_URL", "http://127.0.0.1:9/v1")
    with pytest.raises(BudgetExceeded, match=r"'model-a' has no price, so the budget cannot be kept: add it to endpoint.prices"):
        connections.to_user(settings(repository_root, budget=3.0, prices={})).check()


def test_several_openings_are_one_run_and_the_server_is_understood_once(
    project: Path, repository_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server without response_format refuses it once per model, not once per batch of dialogues; sums go on from batch to batch."""

    def script(number: int, asked: Asked) -> Reply:
        return error(400, "response_format is not supported") if "response_format" in asked.body else good(asked)

    def body(url: str) -> None:
        monkeypatch.setenv("RLVER_USER_URL", url)
        monkeypatch.setenv("RLVER_USER_KEY", KEY)
        first, other = connections.to_user(settings(repository_root)), connections.to_user(settings(repository_root))
        schema = {"type": "object"}

        async def one(question: str) -> None:
            async with first:
                await first.chat(ask(question, schema=schema))

        asyncio.run(one("a"))
        assert first.line().startswith("2 calls, 1 retries, 0 cached, 100+10 tokens"), "also while nothing is open"
        asyncio.run(one("b"))
        asyncio.run(one("a"))
        assert first.summary()["calls"] == 3 and first.summary()["cache_hits"] == 1 and first.summary()["failed/dialect"] == 1
        talk(other, "c")
        assert first.summary()["calls"] == 3 and other.summary()["calls"] == 1, "runs that share a file are told apart"
        assert other.summary()["recorded_money_at_most"] == pytest.approx(3 * 120e-6)
        write_costs(Path("transcripts/v.jsonl"), first)

    server = served(script, body)
    assert len(server.asked) == 4
    written = (project / costs_file(Path("transcripts/v.jsonl"))).read_text()
    assert '"calls": 3.0' in written and KEY not in written
    write_costs(Path("transcripts/v.jsonl"), None)
    assert not (project / costs_file(Path("transcripts/v.jsonl"))).exists()


def test_what_is_in_flight_when_the_budget_ends_is_stored(project: Path, repository_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller stops at the first BudgetExceeded; the slow answer that was on its way is paid for, and kept."""

    def script(number: int, asked: Asked) -> Reply:
        return good(asked, wait_s=0.5 if asked.content == "slow" else 0.0)

    def body(url: str) -> None:
        monkeypatch.setenv("RLVER_USER_URL", url)
        monkeypatch.setenv("RLVER_BUDGET", "0.0008")
        connection = connections.to_user(settings(repository_root))

        async def stop() -> None:
            async with connection:
                try:
                    async with asyncio.TaskGroup() as group:
                        for question in ("slow", "a", "b", "c"):
                            group.create_task(connection.chat(ask(question)))
                except ExceptionGroup as stopped:
                    raise stopped.exceptions[0] from stopped

        with pytest.raises(BudgetExceeded):
            asyncio.run(stop())
        numbers = connection.summary()
        assert numbers["answered"] == numbers["calls"] and numbers["money"] == numbers["money_at_most"], "nothing is left unknown"
        environment.limit_endpoints(None, replay=True)
        (kept,) = talk(connections.to_user(settings(repository_root)), "slow")
        assert isinstance(kept, ChatAnswer) and kept.cached

    served(script, body)


def test_a_replay_asks_nobody_and_says_what_is_missing(project: Path, repository_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def body(url: str) -> None:
        monkeypatch.setenv("RLVER_USER_URL", url)
        talk(connections.to_user(settings(repository_root)), "a")

    served(lambda number, asked: good(asked), body)
    monkeypatch.setenv("RLVER_USER_URL", "")
    environment.limit_endpoints(None, replay=True)
    replay = connections.to_user(settings(repository_root, budget=0.0, prices={}))
    replay.check()
    known, unknown = talk(replay, "a", "b")
    assert isinstance(known, ChatAnswer) and known.text == "the answer to a" and isinstance(unknown, NotRecorded)
    talk(replay, "a")
    assert replay.line().startswith("0 calls, 0 retries, 2 cached"), "over both openings"
    (project / "answers" / "user.db").unlink()
    with pytest.raises(BadFile, match=r"answers/user.db: no such file, so there is nothing to replay"):
        replay.check()


def test_a_connection_that_is_not_open_says_so(project: Path, repository_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLVER_USER_URL", URL)
    connection = connections.to_user(settings(repository_root))
    with pytest.raises(RuntimeError, match="not open"):
        asyncio.run(connection.chat(ask("a")))


def test_the_options_of_a_command_reach_its_stages(project: Path) -> None:
    options.limit_endpoints(None, False)
    assert (environment.budget(), environment.replays()) == (None, False)
    options.limit_endpoints(2.5, True)
    child = environment.for_child()
    assert (child["RLVER_BUDGET"], child["RLVER_REPLAY"]) == ("2.5", "1")
    assert (environment.budget(), environment.replays()) == (2.5, True)


def test_all_processes_of_one_training_are_one_run(monkeypatch: pytest.MonkeyPatch) -> None:
    assert environment.run_name() != environment.run_name()
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "of torchrun")
    assert environment.run_name() == environment.run_name() == "of torchrun"
