"""What counts as a file of a folder. How files are written is attacked in tests/attacks/."""

from __future__ import annotations

from pathlib import Path

from rlver.components.domain.files import files_in


def test_what_python_compiled_or_is_compiling_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "deep" / "__pycache__").mkdir(parents=True)
    for name in ("a.py", "deep/b.tsv", "deep/__pycache__/b.cpython-312.pyc", "deep/__pycache__/b.cpython-312.pyc.139872"):
        (tmp_path / name).touch()
    assert files_in(tmp_path) == [tmp_path / "a.py", tmp_path / "deep" / "b.tsv"]
