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

    return damage


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


@pytest.mark.parametrize("card", ["[]", '{"splits": 3}', "[" * 100_000, '{"appraiser": "APPRAISER", "splits": {"a": null}}', "\x00"])
def test_a_broken_fidelity_card_is_one_line(card: str, tmp_path: Path) -> None:
    from rlver.components.domain.files import BadFile
    from rlver.components.users.distilled.folder import fidelity_of, read_folder

    folder = appraiser_in(tmp_path / "appraiser")
    assert appraise_once(folder) and fidelity_of(folder)["held_out_dialogues"] == 3
    (folder / "fidelity.json").write_text(card.replace("APPRAISER", f"distilled {read_folder(folder).digest}"))
    with pytest.raises(BadFile, match=r"fidelity.json"):
        fidelity_of(folder)
