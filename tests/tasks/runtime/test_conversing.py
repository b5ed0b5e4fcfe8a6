"""Dialogues of one policy, held again only where they must be: what counts as the same, and what a smaller rerun leaves."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest
from fakes import a_dialogue, people

from rlver.components.rollout.episode import Job, Rollout
from rlver.components.settings.settings import load_settings
from rlver.tasks.runtime.assembly import Conversation
from rlver.tasks.runtime.conversing import fingerprint, hold_and_write
from rlver.tasks.runtime.progress import DialogueProgress


@dataclass
class Talk:
    """Holds a dialogue of two turns for each job; Ctrl-C comes after `until` of them."""

    until: int | None = None
    held: list[str] = field(default_factory=list)

    def can_hold(self, jobs: Sequence[Job]) -> None:
        pass

    def hold(self, jobs: Sequence[Job], on_finished: Callable[[Rollout], None]) -> list[Rollout]:
        rollouts = []
        for job in jobs:
            if len(self.held) == self.until:
                raise KeyboardInterrupt
            rollouts.append(Rollout(a_dialogue(job.dialogue_id, [1, 2]), (), (), (), (), (), (), None, ()))
            on_finished(rollouts[-1])
            self.held.append(job.dialogue_id)
        return rollouts


def converse(talk: Talk, jobs: Sequence[Job], out: Path) -> str:
    """Returns what was shown of the progress."""
    shown = io.StringIO()
    hold_and_write(cast(Conversation, talk), jobs, out, "the same", 0.05, DialogueProgress(len(jobs), shown))
    return shown.getvalue()


@pytest.fixture
def jobs() -> list[Job]:
    persona = people()[1][0]
    return [Job(f"p/{number}", persona, number) for number in range(6)]


def test_a_rerun_with_fewer_dialogues_counts_its_own_and_keeps_the_others(jobs: list[Job], tmp_path: Path) -> None:
    out, partial = tmp_path / "t.jsonl", tmp_path / "t.jsonl.partial"
    with pytest.raises(KeyboardInterrupt):
        converse(Talk(until=4), jobs, out)
    shown = converse(few := Talk(), [jobs[0], jobs[5]], out)
    assert few.held == ["p/5"] and len(out.read_text().splitlines()) == 2
    assert "2/2" in shown and "4/2" not in shown and "5/2" not in shown
    assert partial.is_file(), "p/1 to p/3 were held, and perhaps paid for"
    converse(rest := Talk(), jobs, out)
    assert rest.held == ["p/4"] and len(out.read_text().splitlines()) == 6
    assert not partial.exists()


def test_who_speaks_for_the_policy_is_part_of_what_was_held(repository_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repository_root)
    settings = load_settings(repository_root / "params.yaml")
    (tmp_path / "personas.jsonl").write_text("")

    (tmp_path / "models").mkdir()

    def with_rollout(**changes: Any) -> str:
        other = settings.model_copy(update={"rollout": settings.rollout.model_copy(update=changes)})
        return fingerprint(other, tmp_path / "personas.jsonl", "gguf:some.gguf", tmp_path / "models")

    assert (
        with_rollout(sampler="vllm")
        != (held := with_rollout(sampler="transformers"))
        == with_rollout(sampler="transformers", concurrency=3)
    )
    (tmp_path / "models" / "model.safetensors").write_bytes(b"other weights under the same name")
    assert with_rollout(sampler="transformers") != held
