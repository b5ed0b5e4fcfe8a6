"""The folder of a learned appraiser: `appraiser.safetensors` (all arrays), `appraiser.json` (everything else), and its fidelity card."""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from components.files import BadFile, write_bytes_atomically, write_json
from components.simulator.distilled import columns
from components.simulator.distilled.calibration import Calibration
from components.simulator.distilled.guard import Guard, Limits
from components.simulator.distilled.heads import Head
from components.simulator.distilled.model import CODE_VERSION, Distilled
from components.simulator.distilled.trees import Trees

ARRAYS, FACTS, CARD = "appraiser.safetensors", "appraiser.json", "fidelity"
_TREES = ("feature", "threshold", "left", "right", "value", "root")
_CALIBRATION = ("thresholds", "expected", "positive", "spread")


def folder_of(name: str) -> Path:
    """The folder of `distilled:FOLDER`. Raises ValueError for another kind of appraiser."""
    kind, _, folder = name.partition(":")
    if kind != "distilled" or not folder:
        raise ValueError(f"unknown appraiser {name!r}: there are scripted and distilled:FOLDER")
    return Path(folder)


def write_folder(model: Distilled, folder: Path, origin: dict[str, Any]) -> str:
    """Write arrays and facts, `origin` among them; the digest of what was written."""
    arrays: dict[str, np.ndarray] = {
        "usual": model.usual,
        "guard.reply_pairs": model.guard.reply_pairs,
        "guard.user_pairs": model.guard.user_pairs,
    }
    facts: dict[str, Any] = {"version": CODE_VERSION, "origin": origin, "limits": model.guard.limits._asdict()}
    for name, head in (("reply", model.reply_head), ("user", model.user_head)):
        arrays |= {f"{name}.weight": head.weight, f"{name}.constant": head.constant}
    for name, trees in (("words", model.by_words), ("emotion", model.by_emotion)):
        arrays |= {f"{name}.{part}": getattr(trees, part) for part in _TREES}
        facts[name] = {"depth": trees.depth, "baseline": trees.baseline}
    for name, calibration in (("words", model.words_calibration), ("emotion", model.emotion_calibration)):
        arrays |= {f"{name}.{part}": getattr(calibration, part) for part in _CALIBRATION}
        facts[name]["grid"] = list(calibration.grid)
    content = save({name: np.ascontiguousarray(array) for name, array in arrays.items()})
    write_bytes_atomically(folder / ARRAYS, content)
    write_json(folder / FACTS, facts)
    return _digest(folder)


@lru_cache(maxsize=4)
def read_folder(folder: Path) -> Distilled:
    """The appraiser in `folder`. Raises BadFile if there is none, or one of another version of this code."""
    if not (folder / FACTS).is_file() or not (folder / ARRAYS).is_file():
        raise BadFile(f"{folder}: no distilled appraiser in there; `rlver distil TRANSCRIPTS... -o {folder}` makes one")
    try:
        facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
        if facts["version"] != CODE_VERSION:
            raise BadFile(f"{folder}: made by {facts['version']}, this is {CODE_VERSION}; distil it again")
        return _model(load((folder / ARRAYS).read_bytes()), facts, _digest(folder))
    except (ValueError, KeyError, TypeError, SafetensorError) as error:
        if isinstance(error, BadFile):
            raise
        raise BadFile(f"{folder}: not a distilled appraiser: {type(error).__name__}: {error}") from error


def fidelity_of(folder: Path) -> dict[str, Any]:
    """What a result that an appraiser decided says of it: its digest, and its figures on held-out dialogues. Raises BadFile without a card."""
    path = folder / f"{CARD}.json"
    if not path.is_file():
        raise BadFile(f"{path}: the appraiser has no fidelity card; distil it again")
    card = json.loads(path.read_text(encoding="utf-8"))
    if card["appraiser"] != f"distilled {read_folder(folder).digest}":
        raise BadFile(f"{path}: the card of {card['appraiser']}, the folder holds distilled {read_folder(folder).digest}; distil it again")
    ((_, figures),) = card["splits"].items()
    told, free = figures["teacher_forced"], figures["free_running"]
    return {
        "digest": read_folder(folder).digest,
        "held_out_dialogues": figures["dialogues"],
        "teacher_forced_r": told["expected"]["r"]["value"],
        "teacher_forced_sign_accuracy": told["change"]["sign_accuracy"]["value"],
        "free_running_dialogue_r": free["dialogue_mean_r"]["value"],
        "free_running_final_r": free["final_r"]["value"],
    }


def _model(arrays: dict[str, np.ndarray], facts: dict[str, Any], digest: str) -> Distilled:
    def trees(name: str) -> Trees:
        parts = {part: arrays[f"{name}.{part}"] for part in _TREES}
        return Trees(**parts, depth=int(facts[name]["depth"]), baseline=float(facts[name]["baseline"]))

    def calibration(name: str) -> Calibration:
        return Calibration(tuple(int(one) for one in facts[name]["grid"]), *(arrays[f"{name}.{part}"] for part in _CALIBRATION))

    model = Distilled(
        digest=digest,
        reply_head=Head(arrays["reply.weight"], arrays["reply.constant"]),
        user_head=Head(arrays["user.weight"], arrays["user.constant"]),
        by_words=trees("words"),
        by_emotion=trees("emotion"),
        words_calibration=calibration("words"),
        emotion_calibration=calibration("emotion"),
        guard=Guard(arrays["guard.reply_pairs"], arrays["guard.user_pairs"], Limits(**facts["limits"])),
        usual=arrays["usual"],
    )
    if len(model.usual) != len(columns.names(model.reasons)):
        raise ValueError(f"expected {len(columns.names(model.reasons))} columns, got {len(model.usual)}")
    return model


def _digest(folder: Path) -> str:
    """Twelve hex digits of arrays and facts; the card is no part of what decides a change."""
    whole = hashlib.sha256((folder / ARRAYS).read_bytes() + (folder / FACTS).read_bytes())
    return whole.hexdigest()[:12]
