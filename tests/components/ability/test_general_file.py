"""The file of a benchmark and the items beside it; the one file of earlier versions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rlver.components.ability.noninferiority import compare_general, items_file, read_general, write_general
from rlver.components.domain.files import BadFile, read_json, write_json, write_jsonl


def results(right: int) -> dict[str, Any]:
    items = [{"doc": f"d{number}", "prompt": "p", "score": float(number < right), "cluster": "c"} for number in range(40)]
    return {"tasks": {"t": {"metric": "acc", "higher_is_better": True, "value": right / 40, "items": items}}, "smoke_test": False}


def test_items_lie_beside_the_metrics_and_are_read_with_them(tmp_path: Path) -> None:
    path = tmp_path / "general.json"
    write_general(path, results(30))
    assert "items" not in read_json(path)["tasks"]["t"]
    assert read_general(path) == results(30)


def test_a_file_of_an_earlier_version_is_compared_with_one_of_this(tmp_path: Path) -> None:
    before, now = tmp_path / "before" / "general.json", tmp_path / "now" / "general.json"
    write_json(before, results(30))
    write_general(now, results(33))
    found = compare_general(read_general(before), read_general(now), 0.5)["tasks"]["t"]
    assert found["n"] == 40 and found["difference"] == pytest.approx(0.075)


def test_items_of_another_run_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "general.json"
    write_general(path, results(30))
    write_jsonl(items_file(path), [{"task": "other", "doc": "d", "prompt": "p", "score": 1.0}])
    with pytest.raises(BadFile, match=r"general\.items\.jsonl:1: it is of another run than general\.json; run benchmark again"):
        read_general(path)
    assert read_general(tmp_path / "none.json") is None
