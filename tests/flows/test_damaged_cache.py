"""A damaged cache of DVC, as `rlver run` meets it."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlver.tasks.graph import dvc
from rlver.tasks.graph import lock as integrity

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("prefect_server")]


def test_what_came_damaged_out_of_the_cache_ends_the_run_and_the_next_one_is_right(toy: Path, tracking_uri: str) -> None:
    from rlver.flows.reproduce import reproduce

    assert reproduce(only=["personas"], return_state=True).is_completed()
    expected = (toy / "data" / "personas.txt").read_bytes()
    for path in integrity.objects(toy).glob("??/*"):
        path.chmod(0o644)
        path.write_bytes(path.read_bytes()[:10])
        path.chmod(0o444)
    (toy / "data" / "personas.txt").unlink()
    state = reproduce(only=["personas"], return_state=True)
    assert state.is_failed()
    assert state.message == "personas: DVC's cache was damaged and gave data/personas.txt; that is removed, so run again"
    assert reproduce(only=["personas"], return_state=True).is_completed()
    assert (toy / "data" / "personas.txt").read_bytes() == expected and "personas" not in dvc.changed(toy)
