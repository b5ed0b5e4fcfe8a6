"""A model that cannot do it plays the user, behind our own server: it costs dialogues, and never gives a score."""

from __future__ import annotations

from pathlib import Path

import pytest
from chat_server import save_llama, served
from llm_project import change, make_llm_project
from micro import micro_model, micro_tokenizer

from rlver.components.policy.load import save_policy
from rlver.components.rollout.transcripts import load_transcripts
from rlver.flows.cli import main


@pytest.mark.slow
def test_a_model_that_answers_nonsense_costs_unscorable_dialogues_that_replay_to_the_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make_llm_project(tmp_path, answer_timeout_s=300.0, concurrency=1)
    change(tmp_path / "params.yaml", rollout={"max_failure_rate": 1.0})
    model = {"model": "user-model", "temperature": 0.9, "max_tokens": 20}
    change(tmp_path / "params" / "v.yaml", simulator={"llm": {"appraiser": model, "speaker": model}})
    save_policy(micro_model(scale=2.0), micro_tokenizer(), tmp_path / "models" / "base")
    monkeypatch.chdir(tmp_path)
    converse = ["converse", "--policy", "models/base", "--variant", "v", "--personas", "train.jsonl", "--limit", "2", "-o"]
    llama = save_llama(tmp_path / "llama", positions=16_384)
    with served(tmp_path, llama, "--port", "0", "--name", "user-model", "--context", "16384") as (_, url):
        monkeypatch.setenv("RLVER_USER_URL", url)
        assert main([*converse, "held.jsonl"]) == 0
    held = load_transcripts(tmp_path / "held.jsonl")
    assert len(held) == 2 and all(dialogue.emotion_final is None and not dialogue.turns for dialogue in held)
    assert all("no usable answer in 3 attempts" in str(dialogue.error) for dialogue in held)
    assert "7 calls, 1 retries, 0 cached" in capsys.readouterr().err, "three questions each; one more to learn that it takes no JSON schema"
    monkeypatch.setenv("RLVER_USER_URL", "http://127.0.0.1:9/v1")
    assert main([*converse, "again.jsonl", "--replay"]) == 0
    assert (tmp_path / "again.jsonl").read_bytes() == (tmp_path / "held.jsonl").read_bytes()
