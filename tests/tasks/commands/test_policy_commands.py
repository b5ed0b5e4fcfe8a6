"""`rlver converse --policy openai:MODEL` and `vllm:URL` against a real HTTP server: what is written, what is refused before it costs."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from fakes import REPLIES, people
from ruamel.yaml import YAML
from scripted_server import KEY, Asked, Reply, Script, error, serving_beside

from rlver.components.domain.files import write_jsonl
from rlver.components.rollout.transcripts import load_transcripts
from rlver.components.settings.settings import SettingsError, load_settings
from rlver.flows.cli import main
from rlver.tasks.commands.dialogues import CAUTION
from rlver.tasks.runtime.connections import STORED

MODEL = "org/thinker-1"
QUICK = {"attempts": 2, "answer_timeout_s": 20.0, "backoff_first_s": 0.01, "backoff_most_s": 0.02}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repository_root: Path) -> Path:
    """A folder with three turns a dialogue and eight test personas; the current directory."""
    values = YAML(typ="safe").load((repository_root / "params.yaml").read_text(encoding="utf-8"))
    values["simulator"]["max_turns"] = 3
    values["policy"] |= {"thinking": False, "max_reply_tokens": 200, "max_context_tokens": 4000}
    values["endpoint"] |= QUICK
    values["evaluation"] |= {"bootstrap_samples": 200, "repeats": 1}
    YAML(typ="safe").dump(values, tmp_path / "params.yaml")
    (tmp_path / "dvc.yaml").write_text("stages: {}\n")
    write_jsonl(tmp_path / "data" / "personas" / "test.jsonl", [persona.model_dump(mode="json") for persona in people()[1]])
    monkeypatch.chdir(tmp_path)
    for name in ("RLVER_POLICY_URL", "RLVER_POLICY_KEY", "RLVER_REPLAY", "RLVER_BUDGET"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def models(*names: str) -> Reply:
    return Reply(body=json.dumps({"object": "list", "data": [{"id": name} for name in names]}).encode())


def thinker(number: int, asked: Asked) -> Reply:
    """One model, that thinks before each reply and needs the key."""
    if asked.headers.get("authorization") != f"Bearer {KEY}":
        return error(401, f"Incorrect API key provided: {KEY}")
    if asked.path == "/v1/models":
        return models(MODEL)
    turn = sum(message["role"] == "assistant" for message in asked.body["messages"])
    message = {"role": "assistant", "content": REPLIES[turn], "reasoning_content": "secret: they need to be heard"}
    return Reply(body=json.dumps({"choices": [{"message": message, "finish_reason": "stop"}]}).encode())


def complaint(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line of a command that fails, but for the caution that stands before anything is asked."""
    capsys.readouterr()  # what commands before it have said
    assert main(list(arguments)) == 1
    lines = [line for line in capsys.readouterr().err.splitlines() if not line.startswith(("█", "░"))]
    if lines[0] == f"warning: {CAUTION}":
        lines = lines[1:]
    assert len(lines) == 1 and lines[0].startswith("error: "), lines
    return lines[0]


@pytest.mark.long
def test_any_chat_model_is_held_scored_replayed_and_put_on_the_leaderboard(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["converse", "--policy", f"openai:{MODEL}", "--simulator", "scripted", "--repeats", "2"]
    monkeypatch.setenv("RLVER_POLICY_KEY", KEY)
    with serving_beside(thinker) as server:
        monkeypatch.setenv("RLVER_POLICY_URL", server.url)
        assert main([*command, "-o", "any.jsonl"]) == 0
    said = capsys.readouterr()
    assert "any.jsonl: 16 dialogues, final emotion" in said.out and "16/16" in said.err and STORED not in said.err
    dialogues = load_transcripts(project / "any.jsonl")
    assert {dialogue.policy for dialogue in dialogues} == {MODEL}
    assert len({(dialogue.persona_id, dialogue.seed) for dialogue in dialogues}) == 16
    assert len([asked for asked in server.asked if asked.body]) == sum(len(dialogue.turns) for dialogue in dialogues) == 48
    assert all("secret" not in json.dumps(asked.body) for asked in server.asked), "the model's thought is no part of the conversation"
    assert all(turn.think == "secret: they need to be heard" for dialogue in dialogues for turn in dialogue.turns)
    assert not [path for path in project.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]

    with monkeypatch.context() as replayed:
        replayed.setenv("RLVER_REPLAY", "1")
        assert main([*command, "-o", "b.jsonl"]) == 0
    assert (project / "b.jsonl").read_bytes() == (project / "any.jsonl").read_bytes(), "the server is gone; the answers are not"
    assert STORED not in capsys.readouterr().err, "a replay wants stored answers"
    with serving_beside(thinker) as another:  # maybe another model under the same name: who can tell?
        monkeypatch.setenv("RLVER_POLICY_URL", another.url)
        assert main([*command, "-o", "c.jsonl"]) == 0
    assert f"warning: 48 replies are {STORED}" in capsys.readouterr().err and not [asked for asked in another.asked if asked.body]

    assert main(["verify", "any.jsonl"]) == 0
    assert main(["compare", "any.jsonl", "--published"]) == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    own = next(row for row in rows if row.startswith(f"| {MODEL} |"))
    assert "[" in own.split("|")[2] and own.rstrip().endswith(
        "| 16 | 8 test | scenario | scripted/vanilla/" + dialogues[0].simulator.version + " | any.jsonl |"
    )
    assert (
        "| gpt-4.5 | 62.7 (no CI) | 23% | 15% | 100 | – | – | DeepSeek-V3 (2024-12-27) | published: SAGE paper (arXiv 2505.02847 v3), Table 3 |"
        in rows
    )


def test_a_server_with_one_model_is_named_by_its_address(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RLVER_POLICY_KEY", KEY)
    with serving_beside(thinker) as server:
        assert main(["converse", "--policy", f"vllm:{server.url}", "-o", "a.jsonl", "--limit", "2"]) == 0
    assert [dialogue.policy for dialogue in load_transcripts(project / "a.jsonl")] == [MODEL] * 2
    monkeypatch.setenv("RLVER_REPLAY", "1")
    assert main(["converse", "--policy", f"openai:{MODEL}", "-o", "b.jsonl", "--limit", "2"]) == 0
    assert (project / "b.jsonl").read_bytes() == (project / "a.jsonl").read_bytes(), "the address is no part of an answer"
    assert "write openai:MODEL, the one that was recorded" in complaint(
        capsys, "converse", "--policy", f"vllm:{server.url}", "-o", "c.jsonl"
    )


def test_another_path_of_the_server_that_the_key_was_set_for_gets_it(project: Path) -> None:
    """Keys that stay where they belong: tests/attacks/test_endpoint_keys.py."""
    with serving_beside(lambda number, asked: thinker(number, replace(asked, path=asked.path.replace("/team", "")))) as server:
        (project / ".env").write_text(f"RLVER_POLICY_URL={server.url}\nRLVER_POLICY_KEY={KEY}\n")
        assert main(["converse", "--policy", f"vllm:{server.url.replace('/v1', '/team/v1')}", "-o", "a.jsonl", "--limit", "1"]) == 0
    assert {asked.headers["authorization"] for asked in server.asked} == {f"Bearer {KEY}"}
    assert {asked.path for asked in server.asked} == {"/team/v1/models", "/team/v1/chat/completions"}


@pytest.mark.parametrize(
    ("script", "policy", "key", "message"),
    [
        (thinker, f"openai:{MODEL}", "sk-another-key-0123456789", "the key was not accepted (HTTP 401): check RLVER_POLICY_KEY"),
        (thinker, "openai:org/thinker-2", KEY, "unknown model 'org/thinker-2'; the server has org/thinker-1"),
        (lambda number, asked: models("a", "b"), "vllm:{url}", KEY, "has 2 models, for example a: put RLVER_POLICY_URL="),
        (lambda number, asked: Reply(404, b"nothing"), "vllm:{url}", KEY, "lists no models (its address usually ends in /v1)"),
    ],
    ids=["key", "model", "many models", "no list"],
)
def test_what_is_wrong_with_the_server_is_said_before_anything_is_asked(
    script: Script, policy: str, key: str, message: str, project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving_beside(script) as server:
        monkeypatch.setenv("RLVER_POLICY_URL", server.url)
        monkeypatch.setenv("RLVER_POLICY_KEY", key)
        assert message in complaint(capsys, "converse", "--policy", policy.format(url=server.url), "-o", "a.jsonl")
        assert not [asked for asked in server.asked if asked.body]
    assert not (project / "a.jsonl").exists()


def test_a_server_that_is_not_there_or_not_set_is_said_in_one_line(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["converse", "--policy", f"openai:{MODEL}", "-o", "a.jsonl"]
    assert "put RLVER_POLICY_URL=" in complaint(capsys, *command)
    with serving_beside(thinker) as server:
        monkeypatch.setenv("RLVER_POLICY_URL", server.url)
    assert "is the server running, and is the address right?" in complaint(capsys, *command)


def test_dialogues_that_fill_the_context_end_there_and_those_that_never_fit_leave_no_transcript(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    taken = 4

    def forgetful(number: int, asked: Asked) -> Reply:
        if asked.body and len(asked.body["messages"]) > taken:
            return error(400, "This model's maximum context length is 100 tokens", "context_length_exceeded")
        return thinker(number, asked)

    monkeypatch.setenv("RLVER_POLICY_KEY", KEY)
    with serving_beside(forgetful) as server:
        assert main(["converse", "--policy", f"vllm:{server.url}", "-o", "full.jsonl"]) == 0
        full = load_transcripts(project / "full.jsonl")
        assert {(one.stop_reason, len(one.turns), one.emotion_final is None) for one in full} == {("context_full", 2, False)}
        taken = 1
        (project / "answers" / "policy.db").unlink(missing_ok=True)
        message = complaint(capsys, "converse", "--policy", f"vllm:{server.url}", "-o", "never.jsonl")
    assert "8 of 8 dialogues failed (allowed: 5%)" in message and "turn 1" in message and "too long for" in message
    assert not (project / "never.jsonl").exists()


def test_who_would_score_a_real_model_with_the_scripted_user_is_warned_before_anything_is_asked(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said_before = []

    def script(number: int, asked: Asked) -> Reply:
        if asked.body and not said_before:
            said_before.append(capsys.readouterr().err)
        return thinker(number, asked)

    monkeypatch.setenv("RLVER_POLICY_KEY", KEY)
    with serving_beside(script) as server:
        assert main(["converse", "--policy", f"vllm:{server.url}", "-o", "a.jsonl", "--limit", "1"]) == 0
    assert said_before[0].splitlines()[0] == f"warning: {CAUTION}"
    assert "warning:" not in capsys.readouterr().err, "once is enough"


def test_replies_that_were_cut_off_are_told(project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def endless(number: int, asked: Asked) -> Reply:
        reply = thinker(number, asked)
        return Reply(body=reply.body.replace(b'"stop"', b'"length"'))

    monkeypatch.setenv("RLVER_POLICY_KEY", KEY)
    with serving_beside(endless) as server:
        assert main(["converse", "--policy", f"vllm:{server.url}", "-o", "a.jsonl", "--limit", "2"]) == 0
    assert "6 of 6 replies were cut off at policy.max_reply_tokens" in capsys.readouterr().err


def test_a_chat_endpoint_is_talked_with_not_trained(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    values = YAML(typ="safe").load((project / "params.yaml").read_text())
    values["base"] |= {"kind": "model", "model": f"openai:{MODEL}"}
    YAML(typ="safe").dump(values, project / "other.yaml")
    with pytest.raises(
        SettingsError, match=r"base.model is a chat endpoint, which gives text and no tokens: it can be scored .* not trained"
    ):
        load_settings(project / "other.yaml")
    (project / "params").mkdir()
    (project / "params" / "base.yaml").write_text("policy: {thinking: false}\n")
    write_jsonl(project / "train.jsonl", [persona.model_dump(mode="json") for persona in people()[0]])
    message = complaint(capsys, "simulator", "calibrate", "--model", f"openai:{MODEL}", "--personas", "train.jsonl")
    assert "gives text and no tokens: it can be scored" in message

    monkeypatch.setenv("RLVER_POLICY_KEY", KEY)
    monkeypatch.setattr(sys, "stdin", (project / "params" / "base.yaml").open())
    with serving_beside(thinker) as server:
        assert main(["chat", "--policy", f"vllm:{server.url}"]) == 0
    assert f"it > {REPLIES[0]}" in capsys.readouterr().out
