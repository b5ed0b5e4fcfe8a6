"""The licences of everything that is locked."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlver.flows.cli import main
from rlver.tasks.commands.licences import is_for, kind_of, of_locked


@pytest.mark.parametrize(
    ("stated", "kind"),
    [
        ("MIT", "permissive"),
        ("Apache Software License", "permissive"),
        ("GNU General Public License v3 (GPLv3)", "copyleft"),
        ("LGPL-2.1-or-later", "copyleft"),
        ("GPL-2.0 OR MIT", "permissive"),
        ("MPL-2.0 AND MIT", "copyleft"),
        ("Commercial", "unknown"),
        ("", "unknown"),
    ],
)
def test_a_licence_is_as_strict_as_its_strictest_part(stated: str, kind: str) -> None:
    assert kind_of(stated) == kind


def test_the_licences_of_all_locked_packages_are_listed_and_the_strict_ones_written_down(repository_root: Path) -> None:
    found = of_locked(repository_root / "constraints.txt")
    assert len(found) > 200
    written = (repository_root / "SECURITY.md").read_text(encoding="utf-8")
    assert [one.package for one in found if one.kind in ("copyleft", "unknown") and f"`{one.package}`" not in written] == []


@pytest.mark.parametrize(
    ("python", "expected"), [((3, 11), [True, True, False]), ((3, 13), [True, False, True]), ((3, 14), [True, False, True])]
)
def test_what_only_other_pythons_need_is_not_missed(python: tuple[int, int], expected: list[bool]) -> None:
    assert [is_for(python, marker) for marker in ("", 'python_version < "3.13"', 'python_version >= "3.13"')] == expected


def test_a_folder_without_the_lock_is_one_line(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["licences"]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"error: {toy / 'constraints.txt'}: no such file; it belongs to the source of rlver") and said.count("\n") == 1
