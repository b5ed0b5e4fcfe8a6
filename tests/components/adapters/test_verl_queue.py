"""verl's default trainer holds our dialogues through its own workers and TransferQueue (`verl_queue.py`): minutes, most of them imports in Ray."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("verl", reason="verl has an environment of its own (docs/adapters.md)")
pytest.importorskip("ray", reason="verl has an environment of its own (docs/adapters.md)")
pytest.importorskip("transfer_queue", reason="it comes with verl[verl-core] (docs/adapters.md)")

import transfer_queue as tq
from tensordict import TensorDict
from verl_queue import STRIP, Training, training
from verl_worker import Micro, our_own, project_in, rows_of

from rlver.components.domain.emotion import emotion_reward
from rlver.components.rollout.episode import Rollout

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return project_in(tmp_path_factory.mktemp("verl"))


@pytest.fixture(scope="module")
def trained(project: Path) -> Iterator[Training]:
    with training(project) as running:
        yield running


def fields(key: str) -> dict[str, Any]:
    """What TransferQueue has of one output."""
    held = tq.kv_batch_get(keys=[key], partition_id="train")
    return {name: value[0].tolist() if isinstance(value, torch.Tensor) else value.tolist()[0] for name, value in held.items()}


def by_dialogue(keys: list[str]) -> dict[str, list[dict[str, Any]]]:
    """The outputs of each dialogue, in order. A key is prompt_dialogue_output."""
    outputs: dict[str, list[dict[str, Any]]] = {}
    for key in sorted(keys):
        outputs.setdefault(key.rsplit("_", 1)[0], []).append(fields(key))
    return outputs


def is_that_of(outputs: list[dict[str, Any]], rollout: Rollout, rows: list[Any], reward: float) -> None:
    """`rows` are the tokens of each output, as (token, whether the policy said it, its log-probability)."""
    own = rollout.dialogue.model_dump(mode="json")
    assert len(outputs) == len(rows)
    for output, tokens in zip(outputs, rows, strict=True):
        assert output["prompts"] == list(rollout.prompt_ids)
        assert output["responses"] == [token for token, _, _ in tokens]
        assert output["response_mask"] == [int(said) for _, said, _ in tokens] and output["response_mask"][-1] == 1
        assert output["rollout_log_probs"] == pytest.approx([logprob if said else 0.0 for _, said, logprob in tokens], abs=1e-4)
        assert output["rm_scores"] == pytest.approx([0.0] * (len(tokens) - 1) + [reward])
        assert {**json.loads(output["extra_fields"]["dialogue"]), "dialogue_id": ""} == {**own, "dialogue_id": ""}


def test_the_default_worker_gives_token_for_token_the_episodes_of_our_own_loop(project: Path, trained: Training) -> None:
    batch, _ = trained.dialogues(2)
    dialogues = by_dialogue(batch.keys)
    assert len(batch.keys) == len(dialogues) == 4, "two people, each twice"
    rows = rows_of(trained.trainer.config)
    expected = our_own(project, "direct", rows, Micro())
    assert {one[0]["index"] for one in dialogues.values()} == {0, 1}
    for outputs in dialogues.values():
        rollout = expected[outputs[0]["index"]]
        reward = emotion_reward(rollout.dialogue, rollout.well_formed, format_gate=False)
        assert reward is not None and min(outputs[0]["rollout_log_probs"]) < -0.1 and 0 in outputs[0]["response_mask"]
        is_that_of(outputs, rollout, [rollout.seen()], reward)
    assert all(tag["min_global_steps"] == tag["max_global_steps"] == 1 for tag in batch.tags)


def test_where_thoughts_leave_the_context_the_default_worker_has_an_output_for_each_turn(project: Path, trained: Training) -> None:
    batch, _ = trained.dialogues(2, STRIP)
    dialogues = by_dialogue(batch.keys)
    expected = our_own(project, "strip", rows_of(trained.trainer.config), Micro(thinks=True))
    assert len(dialogues) == 4 and len(batch.keys) == 2 * sum(len(rollout.dialogue.turns) for rollout in expected) > 4
    for outputs in dialogues.values():
        rollout = expected[outputs[0]["index"]]
        reward = emotion_reward(rollout.dialogue, rollout.well_formed, format_gate=True)
        assert reward is not None and all(turn.think for turn in rollout.dialogue.turns)
        is_that_of(outputs, rollout, [rollout.seen(turn) for turn in range(len(rollout.dialogue.turns))], reward)


def advantages(trained: Training, batch: Any) -> list[float]:
    """verl's own, of the policy's tokens of each output. The weights that learn would be those that spoke."""
    spoken = tq.kv_batch_get(keys=batch.keys, partition_id="train", select_fields=["rollout_log_probs"])["rollout_log_probs"]
    tq.kv_batch_put(keys=batch.keys, partition_id="train", fields=TensorDict({"old_log_probs": spoken}, batch_size=len(batch.keys)))
    trained.trainer._compute_advantage(batch, {})
    found = []
    for key in batch.keys:
        held = fields(key)
        (value,) = {one for one, said in zip(held["advantages"], held["response_mask"], strict=True) if said}
        found.append(value)
    return found


def test_a_dialogue_that_failed_has_no_output_and_the_others_go_on(trained: Training) -> None:
    batch, metrics = trained.dialogues(2, fails={3: "away"})
    dialogues = by_dialogue(batch.keys)
    rewards = [outputs[-1]["rm_scores"][-1] for outputs in dialogues.values()]
    assert len(dialogues) == 3 and not metrics, "three of four, and no group was replaced"
    alone = [key for key in dialogues if sum(other.split("_")[0] == key.split("_")[0] for other in dialogues) == 1]
    assert len(alone) == 1 and min(rewards) > 0
    by_key = dict(zip((key.rsplit("_", 1)[0] for key in batch.keys), advantages(trained, batch), strict=True))
    assert by_key[alone[0]] == pytest.approx(dialogues[alone[0]][-1]["rm_scores"][-1]), "no mean is subtracted of one"
    assert [value for key, value in by_key.items() if key != alone[0]] == pytest.approx([0.0, 0.0]), "twice the same dialogue"


def test_a_group_of_which_nothing_is_left_is_replaced_by_another(trained: Training) -> None:
    batch, metrics = trained.dialogues(1, fails={1: "aborted", 2: "away"})
    assert metrics == {"training/rollout_failure/evicted_samples": 1}
    assert len(batch.keys) == 2 and len({key.split("_")[0] for key in batch.keys}) == 1
    held = tq.kv_list("train").get("train", {})
    assert all(tag["status"] == "success" for key, tag in held.items() if key in batch.keys)
