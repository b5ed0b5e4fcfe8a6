"""`rlver publish`: what it refuses before anything is written (what it writes: tests/tasks/tracking/test_publishing.py)."""

from __future__ import annotations

from pathlib import Path

import pytest
from dialogue_project import complaint


@pytest.mark.parametrize("name", ["bad name", "only-a-name", "a/b/c", "a/-b", "a/b--c", "a/b.git", f"a/{'b' * 200}"])
def test_a_name_that_the_hub_would_refuse_is_refused_before_a_folder_is_written(
    toy: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert complaint(capsys, "publish", "grpo-think", "--to", name).startswith(f"error: --to {name!r}: expected OWNER/NAME")
    assert not (toy / "published").exists()
