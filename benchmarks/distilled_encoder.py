"""Does a pretrained model help the distilled appraiser? `python -m benchmarks.distilled_encoder RECORDINGS... --states FILE`.

Qwen2.5-Coder-0.5B-Instruct reads each reply after the message it answers. Its mean states in two middle layers take the place of the n-grams in the
study's ridge regression and trees, or stand beside them. Folds and figures are the study's. FILE keeps the states. What is read in `--minutes` is a
balanced part of the recordings; the figures are of the dialogues that were read whole.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from transformers import AutoConfig, AutoModel

from rlver.components.settings.settings import Settings, load_settings
from rlver.components.weights.sources.package import of_package
from rlver.tasks.studies.distil import examples as study
from rlver.tasks.studies.distil.examples import Examples, LearningMaterial
from rlver.tasks.studies.distil.fidelity import fidelity_of, fold_scored
from rlver.tasks.studies.distil.recordings import recorded

MODEL, LAYERS = "qwen2.5-coder-0.5b-instruct", (6, 10)  # of 24
LAST_OF_MESSAGE, FIRST_OF_REPLY = 128, 192  # tokens
ALONE, BESIDE = 0.3, 0.3  # what the states' likeness counts in place of the n-grams and beside them; chosen on the development part
HOW, KEYS = ("teacher_forced", "free_running"), ("r", "sign_accuracy", "direction_agreement")
Turn = tuple[str, str]  # the user's message, the reply
_READERS: list[Reader] = []  # one, in each process of the pool


class Reader:
    """Calling it gives (reply or message, layers, width): the mean states of the two."""

    def __init__(self, folder: Path) -> None:
        torch.set_num_threads(1)
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._model: Any = AutoModel.from_pretrained(folder, num_hidden_layers=max(LAYERS), dtype=torch.bfloat16).eval()
        self._model.norm = torch.nn.Identity()

    @torch.inference_mode()
    def __call__(self, turn: Turn) -> np.ndarray:
        before, between = self._ids("<|im_start|>user\n"), self._ids("<|im_end|>\n<|im_start|>assistant\n")
        message, reply = self._ids(turn[0])[-LAST_OF_MESSAGE:], self._ids(turn[1])[:FIRST_OF_REPLY]
        head = [*before, *message, *between]
        states = self._model(torch.tensor([head + reply]), output_hidden_states=True, use_cache=False).hidden_states
        of_layers = torch.stack([states[layer][0].float() for layer in LAYERS])
        parts = of_layers[:, len(head) :], of_layers[:, len(before) : len(before) + len(message)]
        return np.asarray(torch.stack([part.sum(dim=1) / max(1, part.shape[1]) for part in parts]))

    def _ids(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)


def _begin(folder: Path) -> None:
    _READERS.append(Reader(folder))


def _read(turn: Turn) -> np.ndarray:
    return _READERS[0](turn)


def read_states(turns: Sequence[Turn], order: Sequence[int], kept: Path, minutes: float) -> np.ndarray:
    """(turns, reply or message, layers, width) out of the file `kept`, with what so many more minutes add in this order; NaN where nothing was read."""
    folder, of = of_package(MODEL), kept.with_name(f"{kept.name}.of")
    digest = hashlib.sha256(json.dumps(list(turns)).encode()).hexdigest()
    if kept.exists() and of.is_file() and of.read_text() != digest:
        raise ValueError(f"{kept}: states of other recordings, or in another order; name the same again, or another file")
    of.write_text(digest)
    if not kept.exists():
        shape = (len(turns), 2, len(LAYERS), int(AutoConfig.from_pretrained(folder).hidden_size))
        np.lib.format.open_memmap(kept, "w+", np.float32, shape)[:] = np.nan
    states, begin = np.lib.format.open_memmap(kept, "r+"), time.monotonic()
    left = [place for place in order if np.isnan(states[place, 0, 0, 0])]
    if left and minutes > 0:
        with multiprocessing.get_context("spawn").Pool(2, _begin, (folder,)) as pool:
            for place, read in zip(left, pool.imap(_read, [turns[place] for place in left], chunksize=4), strict=True):
                states[place] = read
                if time.monotonic() - begin > 60 * minutes:
                    break
    return np.array(states)


def in_order(every: Examples) -> list[int]:
    """Rows by dialogue: one dialogue of each persona, with another model each time, then a second of each, and so on."""
    persona, policy = (
        {name: place for place, name in enumerate(study.hash_order("encoder", names))}
        for names in zip(*((one.persona_id, one.policy) for one in every.dialogues), strict=True)
    )
    rank = [((policy[one.policy] - persona[one.persona_id]) % len(policy), persona[one.persona_id]) for one in every.dialogues]
    return sorted(range(len(every.dialogue)), key=lambda row: (rank[every.dialogue[row]], row))


def read_whole(every: Examples, states: np.ndarray, settings: Settings) -> tuple[LearningMaterial, np.ndarray]:
    """The study's material of the dialogues that were read whole, and its states."""
    unread = set(every.dialogue[np.isnan(states[:, 0, 0, 0])].tolist())
    whole = [number for number in range(len(every.dialogues)) if number not in unread]
    kept = study.examples([every.dialogues[number] for number in whole], {})
    return study.material(kept, settings.distil), states[every.rows_of(whole)]


def with_states(of_ngrams: LearningMaterial, states: np.ndarray, scale: float, beside: bool) -> LearningMaterial:
    """The material whose likenesses are those of the states, or of n-grams and states together; needs and constants are the study's."""
    need = of_ngrams.examples.need
    same = np.asarray((need[:, None] == need[None]) & (need[:, None] >= 0), dtype=np.float32)
    reply, user = (np.float32(scale) * _likeness(states[:, part]) for part in range(2))
    if beside:
        return replace(of_ngrams, reply_kernel=of_ngrams.reply_kernel + reply * (1 + same), user_kernel=of_ngrams.user_kernel + user)
    constant = np.float32(study.NEED_CONSTANT) * same + np.float32(study.CONSTANT)
    return replace(of_ngrams, reply_kernel=reply * (1 + same) + constant, user_kernel=user + np.float32(study.CONSTANT))


def _likeness(states: np.ndarray) -> np.ndarray:
    flat = states.reshape(len(states), -1)
    flat = (flat - flat.mean(axis=0)) / flat.std(axis=0)
    return np.asarray(flat @ flat.T / flat.shape[1], dtype=np.float32)


def shown(name: str, figures: dict[str, Any]) -> None:
    """Those of docs/distil.md. The ridge regression reads the reply alone."""
    print(f"{name}: {figures['dialogues']} dialogues, {figures['turns']} turns")
    for what, figure in (
        *((f"{how}, {key}", figures[how]["change" if key == "sign_accuracy" else "expected"][key]) for how in HOW for key in KEYS),
        ("free_running, dialogue_mean_r", figures["free_running"]["dialogue_mean_r"]),
        *((f"ridge alone, {key}", figures["baselines"]["n-gram ridge"][key]) for key in KEYS),
    ):
        print(f"  {what:40}{figure['value']}  {figure['ci95']}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.distilled_encoder", description=__doc__)
    parser.add_argument("recordings", type=Path, nargs="+")
    parser.add_argument("--states", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=30.0)
    args = parser.parse_args()
    settings = load_settings(Path("params.yaml"))
    every = study.examples([dialogue for path in args.recordings for dialogue in recorded(path)], {})
    states = read_states(list(zip(every.user, every.reply, strict=True)), in_order(every), args.states, args.minutes)
    of_ngrams, states = read_whole(every, states, settings)
    alone, beside = with_states(of_ngrams, states, ALONE, False), with_states(of_ngrams, states, BESIDE, True)
    for name, made in {"n-grams": of_ngrams, "states": alone, "n-grams and states": beside}.items():
        folds = study.cross_folds(made.examples.dialogues, settings.distil.persona_folds, settings.distil.policy_folds)
        parts = [fold_scored(made, fold, settings.distil, settings.seed) for fold in folds]
        shown(name, fidelity_of(made, parts, settings.simulator.rules, settings.evaluation.bootstrap_samples, settings.seed))


if __name__ == "__main__":
    main()
