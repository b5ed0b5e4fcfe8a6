"""Kinds by name: those of this project by their place, those of others by entry point; nothing is imported to list them."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rlver.components.domain import registry
from rlver.components.domain.kinds import UserKind
from rlver.components.domain.registry import ALGORITHMS, APPRAISERS, MODELS, REWARDS, SIMULATORS, SPEAKERS, Registry, UnknownKind


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder whose distributions are installed as long as the test runs."""
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    registry._installed.cache_clear()


def bring(place: Path, distribution: str, group: str, name: str, target: str) -> None:
    info = place / f"{distribution}-2.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 2.0\n")
    (info / "entry_points.txt").write_text(f"[{group}]\n{name} = {target}\n")
    registry._installed.cache_clear()
    importlib.invalidate_caches()


@pytest.mark.parametrize(
    ("kinds", "names"),
    [
        (APPRAISERS, {"scripted", "llm", "distilled"}),
        (SPEAKERS, {"scripted", "llm"}),
        (SIMULATORS, {"scripted", "llm"}),
        (REWARDS, {"emotion"}),
        (ALGORITHMS, {"grpo", "ppo"}),
        (MODELS, {"model"}),
    ],
)
def test_this_projects_own_kinds_are_found_by_their_place(kinds: Registry, names: set[str]) -> None:
    assert names <= set(kinds.names()) and kinds.names() == sorted(kinds.names())
    for name in kinds.names():
        assert kinds.has(name) and kinds.check(name) == name and kinds.load(name) is kinds.load(name)
        assert kinds.origin(name) is None


def test_a_half_that_a_user_does_not_have_is_not_listed() -> None:
    assert "distilled" not in SPEAKERS.names() and "shifts" not in APPRAISERS.names() and "together" not in SIMULATORS.names()


def test_listing_names_imports_no_kind() -> None:
    program = (
        "import sys; from rlver.components.domain.registry import *; from rlver.components.domain import registry as r\n"
        "[k.names() for k in vars(r).values() if isinstance(k, r.Registry)]\n"
        "print([m for m in sys.modules if m.endswith(('.kind', '.grpo', '.emotion')) and m.startswith('rlver.components')])\n"
        "print({'torch', 'numpy', 'httpx'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.splitlines()
    assert [name for name in done[0].strip("[]").split(", ") if "domain.emotion" not in name and name] == [] and done[1] == "set()"


@pytest.mark.parametrize("name", ["oracle", "", "os", "../users", "scripted.kind", "Scripted", "scripted:vanilla", "é" * 300])
def test_an_unknown_name_is_one_line_with_those_that_are_known(name: str) -> None:
    for ask in (APPRAISERS.check, APPRAISERS.load, APPRAISERS.origin):
        with pytest.raises(UnknownKind, match=r"^unknown appraiser '.*': choose one of .*distilled.*llm.*scripted") as raised:
            ask(name)
        assert len(str(raised.value)) < 300


def test_another_package_is_found_and_named(installed: Path) -> None:
    (installed / "oracles.py").write_text(
        "from rlver.components.domain.kinds import UserKind\nAPPRAISER = UserKind(lambda wanted: wanted)\n"
    )
    bring(installed, "oracles", "rlver.appraisers", "oracle", "oracles:APPRAISER")
    assert "oracle" in APPRAISERS.names() and not SPEAKERS.has("oracle")
    assert isinstance(APPRAISERS.load("oracle"), UserKind) and APPRAISERS.parameters("oracle") is None
    assert APPRAISERS.origin("oracle") == "oracles 2.0" and "oracles 2.0" in registry.packages()
    bring(installed, "pictures", "rlver.panels", "mood", "nothing:PANEL")
    assert "pictures 2.0" in registry.packages(), "a report with another package's panel is stale once that is upgraded"


def test_a_name_of_this_project_is_never_another_packages(installed: Path) -> None:
    bring(installed, "impostor", "rlver.appraisers", "scripted", "nothing:APPRAISER")
    assert APPRAISERS.origin("scripted") is None and isinstance(APPRAISERS.load("scripted"), UserKind)
    assert APPRAISERS.names().count("scripted") == 1


def test_a_name_that_two_packages_bring_is_refused(installed: Path) -> None:
    for distribution in ("one", "other"):
        bring(installed, distribution, "rlver.rewards", "kindness", "nothing:REWARD")
    with pytest.raises(UnknownKind, match=r"reward 'kindness' is brought by (one 2\.0 and other 2\.0|other 2\.0 and one 2\.0): remove one"):
        REWARDS.load("kindness")


@pytest.mark.parametrize("target", ["nothing_here:REWARD", "oracles_broken:REWARD", "oracles_broken:MISSING"])
def test_what_cannot_be_loaded_says_whose_it_is(installed: Path, target: str) -> None:
    (installed / "oracles_broken.py").write_text("raise OSError('no disk')\n")
    bring(installed, "oracles", "rlver.rewards", "kindness", target)
    with pytest.raises(UnknownKind, match=r"reward 'kindness' of oracles 2\.0 cannot be loaded: (ModuleNotFoundError|OSError)"):
        REWARDS.load("kindness")
