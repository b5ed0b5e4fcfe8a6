"""Learned appraisers whose files are broken: one line, and no change of emotion."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from broken_models import (
    appraise_once,
    appraiser_in,
)

# Learned appraisers.


def array(name: str, change: Callable[[Any], Any]) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        from safetensors.numpy import load_file as load_arrays
        from safetensors.numpy import save_file as save_arrays

        arrays = load_arrays(folder / "appraiser.safetensors")
        arrays[name] = np.ascontiguousarray(change(arrays[name]))
        save_arrays(arrays, folder / "appraiser.safetensors")
        of_older_folders(folder)

    return damage


def of_older_folders(folder: Path) -> None:
    """They do not say which arrays belong to the facts."""
    path = folder / "appraiser.json"
    path.write_text(json.dumps({name: value for name, value in json.loads(path.read_text()).items() if name != "arrays"}))


def fact(name: str, value: Any) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        path = folder / "appraiser.json"
        facts = json.loads(path.read_text())
        facts["words"][name] = value
        path.write_text(json.dumps(facts))

    return damage


BROKEN_APPRAISERS: dict[str, tuple[Callable[[Path], None], str]] = {
    "a leaf that is no number": (array("words.value", lambda value: value * math.nan), "words.value: expected finite"),
    "a child that is not there": (array("words.left", lambda left: left + 7), r"words.left: expected places in 0\.\.2"),
    "a column that is not there": (array("words.feature", lambda feature: feature - 1), "words.feature: expected places"),
    "buckets of no power of two": (array("reply.weight", lambda weight: weight[:, :11]), "reply.weight: expected"),
    "a curve of two lengths": (array("words.spread", lambda spread: spread[:1]), "words.spread: expected"),
    "guards that are too short": (array("guard.user_pairs", lambda pairs: pairs[:9]), "guard.user_pairs: expected"),
    "a depth that never ends": (fact("depth", 200_000), r"words: expected trees, a depth of 0\.\.3"),
    "a baseline that is no number": (fact("baseline", math.nan), "a finite baseline"),
    "an empty grid": (fact("grid", []), "words: expected a grid"),
    "a grid beyond all emotion": (fact("grid", [-3, 0, 10**6]), "words: expected a grid"),
}


@pytest.mark.parametrize("name", BROKEN_APPRAISERS)
def test_a_broken_appraiser_is_one_line_and_no_change(name: str, tmp_path: Path) -> None:
    from rlver.components.domain.files import BadFile

    folder = appraiser_in(tmp_path / "appraiser")
    damage, said = BROKEN_APPRAISERS[name]
    damage(folder)
    with pytest.raises(BadFile, match=said) as error:
        appraise_once(folder)
    assert str(folder) in str(error.value) and "\n" not in str(error.value)


def test_arrays_and_facts_of_two_appraisers_are_refused(tmp_path: Path) -> None:
    """As a kill between writing the two leaves them: each is whole."""
    from rlver.components.domain.files import BadFile
    from rlver.components.users.distilled.folder import read_folder

    folder, other = (appraiser_in(tmp_path / name, worth) for name, worth in (("one", 0.5), ("other", 0.25)))
    assert read_folder(folder).digest != read_folder(other).digest
    (folder / "appraiser.safetensors").write_bytes((other / "appraiser.safetensors").read_bytes())
    read_folder.cache_clear()
    with pytest.raises(BadFile, match=r"appraiser\.safetensors is not the one that appraiser\.json was written with; distil it again"):
        read_folder(folder)
    of_older_folders(folder)
    assert read_folder(folder).digest


@pytest.mark.parametrize("speaker", ["scripted", "llm"])
def test_a_dialogue_of_an_unknown_difficulty_is_passed_over(speaker: str, tmp_path: Path) -> None:
    from fakes import a_dialogue, difference_of

    from rlver.components.domain.transcript import SimulatorTag
    from rlver.components.replay.verification import NotRederivable
    from rlver.components.users.distilled.folder import read_folder

    folder = appraiser_in(tmp_path / "appraiser")
    tag = SimulatorTag(kind=f"distilled+{speaker}", difficulty="brutal", version=read_folder(folder).version)
    dialogue = a_dialogue("d", [3]).model_copy(update={"simulator": tag})
    with pytest.raises(NotRederivable, match=r"dialogue d: its user was .*brutal"):
        difference_of(dialogue, {}, f"distilled:{folder}")


@pytest.mark.parametrize("card", ["[]", '{"splits": 3}', "[" * 100_000, '{"appraiser": "APPRAISER", "splits": {"a": null}}', "\x00"])
def test_a_broken_fidelity_card_is_one_line(card: str, tmp_path: Path) -> None:
    from rlver.components.domain.files import BadFile
    from rlver.components.users.distilled.folder import fidelity_of, read_folder

    folder = appraiser_in(tmp_path / "appraiser")
    assert appraise_once(folder) and fidelity_of(folder)["held_out_dialogues"] == 3
    (folder / "fidelity.json").write_text(card.replace("APPRAISER", f"distilled {read_folder(folder).digest}"))
    with pytest.raises(BadFile, match=r"fidelity.json"):
        fidelity_of(folder)
