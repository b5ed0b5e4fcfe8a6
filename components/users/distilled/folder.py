"""The folder of a learned appraiser: `appraiser.safetensors` (all arrays), `appraiser.json` (everything else), and its fidelity card."""

from __future__ import annotations

import hashlib
import math
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from rlver.components.domain.files import BadFile, read_json, write_bytes_atomically, write_json
from rlver.components.users.distilled import features as columns
from rlver.components.users.distilled.appraiser import CODE_VERSION, Distilled
from rlver.components.users.distilled.guard import PAIR_BITS, Guard, GuardLimits
from rlver.components.users.distilled.heads import ANYBODY, Calibration, Head, Trees

ARRAYS, FACTS, CARD = "appraiser.safetensors", "appraiser.json", "fidelity"
MOST_ARRAYS, MOST_FACTS = 2**30, 2**20  # bytes; what the defaults distil has about 16 MiB of arrays
FIGURES = {
    "teacher_forced_r": ("teacher_forced", "expected", "r"),
    "teacher_forced_sign_accuracy": ("teacher_forced", "change", "sign_accuracy"),
    "free_running_r": ("free_running", "expected", "r"),
    "free_running_dialogue_r": ("free_running", "dialogue_mean_r"),
    "free_running_final_r": ("free_running", "final_r"),
    "free_running_final_mae": ("free_running", "final_mae"),
}
_MOST_CHANGE = 10  # points of emotion, for better or worse
TREES = "words"  # names of its arrays begin so: older folders hold trees of a second kind, which appraised nothing
_TREES = ("feature", "threshold", "left", "right", "value", "root")
_CALIBRATION = ("thresholds", "expected", "positive", "spread")


def folder_of(name: str) -> Path:
    """The folder of `distilled:FOLDER`. Raises ValueError for another kind of appraiser."""
    kind, _, folder = name.partition(":")
    if kind != "distilled" or not folder:
        raise ValueError(f"{name!r} is no learned appraiser: write distilled:FOLDER")
    return Path(folder)


def write_folder(model: Distilled, folder: Path, origin: dict[str, Any]) -> str:
    """Write arrays and facts, `origin` among them; the digest of what was written."""
    arrays: dict[str, np.ndarray] = {
        "usual": model.usual,
        "guard.reply_pairs": model.guard.reply_pairs,
        "guard.user_pairs": model.guard.user_pairs,
    }
    of_trees = {"depth": model.trees.depth, "baseline": model.trees.baseline, "grid": list(model.calibration.grid)}
    facts: dict[str, Any] = {"version": CODE_VERSION, "origin": origin, "limits": model.guard.limits._asdict(), TREES: of_trees}
    for name, head in (("reply", model.reply_head), ("user", model.user_head)):
        arrays |= {f"{name}.weight": head.weight, f"{name}.constant": head.constant}
    arrays |= {f"{TREES}.{part}": getattr(model.trees, part) for part in _TREES}
    arrays |= {f"{TREES}.{part}": getattr(model.calibration, part) for part in _CALIBRATION}
    content = save({name: np.ascontiguousarray(array) for name, array in arrays.items()})
    facts["arrays"] = hashlib.sha256(content).hexdigest()  # so that a kill between the two leaves no mixture
    write_bytes_atomically(folder / ARRAYS, content)
    write_json(folder / FACTS, facts)
    return _digest(folder)


@lru_cache(maxsize=4)
def read_folder(folder: Path) -> Distilled:
    """The appraiser in `folder`. Raises BadFile if there is none, or one of another version of this code."""
    if not (folder / FACTS).is_file() or not (folder / ARRAYS).is_file():
        raise BadFile(f"{folder}: no distilled appraiser in there; `rlver distil TRANSCRIPTS... -o {folder}` makes one")
    for name, most in ((FACTS, MOST_FACTS), (ARRAYS, MOST_ARRAYS)):
        if (folder / name).stat().st_size > most:
            raise BadFile(f"{folder}: {name} is larger than any that was distilled ({most // 2**20} MiB); `rlver distil` makes a good one")
    facts, content = _object(folder / FACTS), (folder / ARRAYS).read_bytes()
    if facts.get("version") != CODE_VERSION:
        raise BadFile(f"{folder}: made by {str(facts.get('version'))[:40]}, this is {CODE_VERSION}; distil it again")
    if facts.get("arrays", digest := hashlib.sha256(content).hexdigest()) != digest:  # older folders do not say
        raise BadFile(f"{folder}: {ARRAYS} is not the one that {FACTS} was written with; distil it again, or take another copy")
    try:
        model = _model(load(content), facts, _digest(folder))
        _refuse_misfits(model)
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError, SafetensorError) as error:
        raise BadFile(
            f"{folder}: not a distilled appraiser: {type(error).__name__}: {str(error)[:200]}; `rlver distil` makes one"
        ) from error
    return model


def fidelity_of(folder: Path) -> dict[str, Any]:
    """What a result that an appraiser decided says of it: each figure of FIGURES as <name> and, with its 95% interval, <name>_ci95.

    Raises BadFile without a card, or with that of another appraiser.
    """
    path = folder / f"{CARD}.json"
    if not path.is_file():
        raise BadFile(f"{path}: the appraiser has no fidelity card; distil it again")
    card, digest = _object(path), read_folder(folder).digest
    if card.get("appraiser") != f"distilled {digest}":
        raise BadFile(f"{path}: the card of {str(card.get('appraiser'))[:40]}, the folder holds distilled {digest}; distil it again")
    try:
        ((held_out, split),) = card["splits"].items()
        short: dict[str, Any] = {
            "digest": digest,
            "learned_from": {name: card["origin"][name] for name in ("dialogues", "turns", "personas", "policies", "users")},
            "held_out": held_out,
            "held_out_dialogues": split["dialogues"],
            "held_out_turns": split["turns"],
        }
        for name, parts in FIGURES.items():
            figure = split
            for part in parts:
                figure = figure[part]
            short |= {name: figure["value"], f"{name}_ci95": figure["ci95"]}
        return short
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise BadFile(f"{path}: not a fidelity card: {type(error).__name__}: {str(error)[:200]}; distil it again") from error


def _model(arrays: dict[str, np.ndarray], facts: dict[str, Any], digest: str) -> Distilled:
    of_trees = facts[TREES]
    return Distilled(
        digest=digest,
        reply_head=Head(arrays["reply.weight"], arrays["reply.constant"]),
        user_head=Head(arrays["user.weight"], arrays["user.constant"]),
        trees=Trees(
            **{part: arrays[f"{TREES}.{part}"] for part in _TREES}, depth=int(of_trees["depth"]), baseline=float(of_trees["baseline"])
        ),
        calibration=Calibration(tuple(int(one) for one in of_trees["grid"]), *(arrays[f"{TREES}.{part}"] for part in _CALIBRATION)),
        guard=Guard(arrays["guard.reply_pairs"], arrays["guard.user_pairs"], GuardLimits(**facts["limits"])),
        usual=arrays["usual"],
    )


def _refuse_misfits(model: Distilled) -> None:
    """Raise ValueError for a part that does not fit the others: it would fail, or give another change, in the middle of a dialogue."""
    width = len(columns.names(model.reasons))
    for name, head, targets in (("reply", model.reply_head, model.reasons + 1), ("user", model.user_head, len(columns.USER_TARGETS))):
        groups, buckets, *_ = head.weight.shape
        if groups not in (1, ANYBODY + 1) or buckets < 2 or buckets & (buckets - 1):
            raise ValueError(f"{name}.weight: expected 1 or {ANYBODY + 1} groups and a power of two of buckets, got {groups} and {buckets}")
        _fits(f"{name}.weight", head.weight, "float16", groups, buckets, targets)
        _fits(f"{name}.constant", head.constant, "float32", groups, targets)
    trees, nodes, roots = model.trees, len(model.trees.value), len(model.trees.root)
    for part, kind, count, end in (
        ("feature", "int32", nodes, width),
        ("left", "int32", nodes, nodes),
        ("right", "int32", nodes, nodes),
        ("root", "int32", roots, nodes),
        ("threshold", "float64", nodes, None),
        ("value", "float64", nodes, None),
    ):
        _fits(f"{TREES}.{part}", getattr(trees, part), kind, count, end=end)
    if not roots or not 0 <= trees.depth <= nodes or not math.isfinite(trees.baseline):
        raise ValueError(f"{TREES}: expected trees, a depth of 0..{nodes} and a finite baseline, got {trees.depth} and {trees.baseline}")
    calibration, grid, points = model.calibration, model.calibration.grid, len(model.calibration.expected)
    if not grid or list(grid) != sorted(set(grid)) or max(map(abs, grid)) > _MOST_CHANGE or not points:
        raise ValueError(f"{TREES}: expected a grid of rising changes within ±{_MOST_CHANGE} and points of a curve, got {grid[:30]}")
    _fits(f"{TREES}.thresholds", calibration.thresholds, "float64", len(grid) - 1)
    for part in ("expected", "positive", "spread"):
        _fits(f"{TREES}.{part}", getattr(calibration, part), "float64", points)
    for name in ("reply_pairs", "user_pairs"):
        _fits(f"guard.{name}", getattr(model.guard, name), "uint8", (1 << PAIR_BITS) // 8)
    if not all(isinstance(limit, (int, float)) and math.isfinite(limit) for limit in model.guard.limits):
        raise ValueError("limits: expected finite numbers")
    _fits("usual", model.usual, "float64", width)


def _fits(name: str, array: np.ndarray, kind: str, *shape: int, end: int | None = None) -> None:
    """Raise ValueError unless the array has this kind and shape and finite numbers, with `end` all of them in 0..end-1."""
    if array.dtype != np.dtype(kind) or array.shape != shape or not np.isfinite(array).all():
        raise ValueError(f"{name}: expected finite {kind} of shape {shape}, got {array.dtype} of {array.shape}")
    if end is not None and array.size and (array.min() < 0 or array.max() >= end):
        raise ValueError(f"{name}: expected places in 0..{end - 1}, got {array.min()}..{array.max()}")


def _object(path: Path) -> dict[str, Any]:
    """The JSON object in `path`. Raises BadFile."""
    found = read_json(path, "not a distilled appraiser, or a damaged one; distil it again")
    if not isinstance(found, dict):
        raise BadFile(f"{path}: expected a JSON object, got {type(found).__name__}")
    return found


def _digest(folder: Path) -> str:
    """Twelve hex digits of arrays and facts; the card is no part of what decides a change."""
    whole = hashlib.sha256((folder / ARRAYS).read_bytes() + (folder / FACTS).read_bytes())
    return whole.hexdigest()[:12]
