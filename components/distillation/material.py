"""What all learning on one set of recordings shares: n-gram vectors, how alike all texts are, and who may not learn from whom."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from components.distillation.examples import Examples
from components.distillation.parameters import DistilParameters
from components.distillation.ridge import Floats, by_need, for_everybody, gram, presence, same_need
from components.distillation.splits import hash_order
from components.simulator.distilled.ngrams import ORDERS, read

Masks = tuple[NDArray[np.bool_], NDArray[np.bool_]]


@dataclass(frozen=True, eq=False)
class Material:
    """Nothing in it comes from a judgement, so folds may share it."""

    examples: Examples
    reply_vectors: scipy.sparse.csr_array
    user_vectors: scipy.sparse.csr_array
    reply_kernel: Floats  # (rows, rows), by need
    user_kernel: Floats


def material(examples: Examples, parameters: DistilParameters) -> Material:
    reply_vectors, user_vectors = presence(examples.reply, parameters.bits), presence(examples.user, parameters.bits)
    return Material(
        examples,
        reply_vectors,
        user_vectors,
        by_need(gram(reply_vectors), same_need(examples.need)),
        for_everybody(gram(user_vectors)),
    )


def inner_cells(examples: Examples, rows: NDArray[np.int64], folds: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(rows, rows): the persona fold and the policy fold of each of the given rows. The dealing is shifted against that of the outer folds,
    whose held-out names would otherwise leave one fold empty."""

    def dealt(kind: str, names: list[str]) -> NDArray[np.int64]:
        order = {name: number % folds for number, name in enumerate(hash_order(f"inner {kind}", names))}
        return np.array([order[name] for name in names], dtype=np.int64)

    dialogues = [examples.dialogues[number] for number in examples.dialogue[rows]]
    return dealt("persona", [one.persona_id for one in dialogues]), dealt("policy", [one.policy for one in dialogues])


def masks_of(persona: NDArray[np.int64], policy: NDArray[np.int64]) -> list[Masks]:
    """(left out, predicted) for every cell: its personas and, if there are several, its policies are left out."""
    several = len(set(policy.tolist())) > 1
    cells = sorted(set(zip(persona.tolist(), policy.tolist(), strict=True)))
    return [((persona == who) | ((policy == by) & several), (persona == who) & (policy == by)) for who, by in cells]


def reason_vectors(examples: Examples, rows: NDArray[np.int64], components: int, bits: int, seed: int) -> Floats:
    """(rows, components): what users said of these replies, by its main directions, each of mean 0 and variance 1 (0 if there are fewer)."""
    from sklearn.decomposition import TruncatedSVD

    found = np.zeros((len(rows), components), dtype=np.float32)
    vectors = presence([examples.reasons[row] for row in rows], bits)
    common = np.flatnonzero(np.asarray((vectors > 0).sum(axis=0)).ravel() >= max(2, len(rows) // 200))
    possible = min(components, len(common) - 1, len(rows) - 1)
    if possible < 1:
        return found
    rarity = np.log(len(rows) / np.asarray((vectors[:, common] > 0).sum(axis=0)).ravel()).astype(np.float32)
    parts = TruncatedSVD(possible, random_state=seed).fit_transform(vectors[:, common] * rarity[None])
    spread = parts.std(axis=0)
    found[:, :possible] = (parts - parts.mean(axis=0)) / np.where(spread > 1e-9, spread, 1.0)
    return found


def known_shares(texts: list[str], fold: NDArray[np.int64]) -> NDArray[np.float64]:
    """(texts): the share of each text's runs of two units that occur in texts of other folds than its own; 1 where it has none."""
    reads = [read(text) for text in texts]
    shares = np.ones(len(texts))
    for one in sorted(set(fold.tolist())):
        known = np.unique(np.concatenate([text.pairs for text, of in zip(reads, fold, strict=True) if of != one] or [reads[0].pairs]))
        for place in np.flatnonzero(fold == one):
            runs = reads[place].hashes[ORDERS.index(2)]
            if len(runs):
                near = np.minimum(np.searchsorted(known, runs), len(known) - 1)
                shares[place] = float(np.mean(known[near] == runs))
    return shares
