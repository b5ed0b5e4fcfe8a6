"""Every opening of the sealed test is counted, and the one before it must be in git."""

from __future__ import annotations

import csv
import subprocess
from pathlib import Path

import pytest

from rlver.components.personas.schema import validate_file
from rlver.flows.cli import main
from rlver.tasks.commands.unsealing import OPENINGS

OUT = "imported/sealed.jsonl"


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    git("init", "-q")
    return tmp_path


def git(*arguments: str) -> None:
    subprocess.run(("git", "-c", "user.name=a", "-c", "user.email=a@example.org", *arguments), check=True, capture_output=True)


def unseal(*more: str) -> int:
    return main(["personas", "unseal", "-o", OUT, "--count", "8", *more])


def test_each_opening_is_a_numbered_line_and_waits_until_the_last_is_committed(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert unseal("--why", "the table of the\npaper") == 0
    assert {one.split for one in validate_file(Path(OUT))} == {"sealed"}
    assert unseal("--why", "once more, please") == 1
    assert "error: an earlier opening or look is not in git yet: git add sealed-openings.csv" in capsys.readouterr().err
    git("add", str(OPENINGS))
    git("commit", "-qm", "opened")
    before = Path(OUT).read_bytes()
    assert unseal("--why", "the table of the paper, again") == 0
    lines = list(csv.DictReader(OPENINGS.open(encoding="utf-8")))
    assert [one["opening"] for one in lines] == ["1", "2"] and lines[0]["why"] == "the table of the paper"
    assert lines[0]["sha256"] == lines[1]["sha256"] and Path(OUT).read_bytes() == before


def test_a_folder_below_has_no_record_of_its_own(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert unseal("--why", "the table of the paper") == 0
    (workspace / "below").mkdir()
    monkeypatch.chdir(workspace / "below")
    assert unseal("--why", "the same from another folder") == 1
    assert "not in git yet: git add ../sealed-openings.csv" in capsys.readouterr().err
    git("add", "../sealed-openings.csv")
    git("commit", "-qm", "opened")
    assert unseal("--why", "the same from another folder") == 0
    assert "opening 2 stands in ../sealed-openings.csv" in capsys.readouterr().out and not OPENINGS.exists()


def test_without_a_reason_or_without_git_nothing_is_opened(
    workspace: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert unseal("--why", "look") == 1
    assert "error: say in --why what the sealed test is opened for" in capsys.readouterr().err
    monkeypatch.chdir(tmp_path_factory.mktemp("no-git"))
    assert unseal("--why", "the table of the paper") == 1
    assert "in a git repository only" in capsys.readouterr().err
    assert not Path(OUT).exists() and not OPENINGS.exists()


def test_an_ignored_list_of_openings_counts_as_not_committed(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path(".gitignore").write_text("*.csv\n", encoding="utf-8")
    assert unseal("--why", "the table of the paper") == 0
    assert unseal("--why", "the table of the paper") == 1
    assert "not in git yet" in capsys.readouterr().err
