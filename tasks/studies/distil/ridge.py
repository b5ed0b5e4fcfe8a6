"""Ridge regression on n-grams in its dual form, with out-of-fold predictions that cost one inverse.

With A = K + strength I and a = A⁻¹ Y, leaving out the rows S changes their residuals to (A⁻¹_SS)⁻¹ a_S: exact, and no refit.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.linalg
import scipy.sparse
from numpy.typing import NDArray

from rlver.components.users.distilled.ngrams import buckets, read

Floats = NDArray[np.float32]
_NEED_CONSTANT, _CONSTANT = 0.1, 0.1  # prior variance of the constants, beside n-gram vectors of unit length


def presence(texts: Sequence[str], bits: int) -> scipy.sparse.csr_array:
    """(texts, 2**bits): 1 over the root of their number for every bucket that occurs."""
    found = {text: buckets(read(text).hashes, bits) for text in dict.fromkeys(texts)}
    columns = [found[text] for text in texts]
    begins = np.concatenate([[0], np.cumsum([len(one) for one in columns])])
    values = np.concatenate([np.full(len(one), 1 / np.sqrt(max(1, len(one))), dtype=np.float32) for one in columns])
    return scipy.sparse.csr_array((values, np.concatenate(columns), begins), shape=(len(texts), 1 << bits))


def gram(vectors: scipy.sparse.csr_array) -> Floats:
    return np.array((vectors @ vectors.T).toarray(), dtype=np.float32)


def same_need(need: NDArray[np.int64]) -> Floats:
    """1 where both rows have the same, known need."""
    return np.asarray((need[:, None] == need[None]) & (need[:, None] >= 0), dtype=np.float32)


def by_need(likeness: Floats, same: Floats) -> Floats:
    """The kernel of weights for everybody plus weights for each need."""
    return np.asarray(likeness * (1 + same) + _NEED_CONSTANT * same + _CONSTANT, dtype=np.float32)


def for_everybody(likeness: Floats) -> Floats:
    return np.asarray(likeness + np.float32(_CONSTANT), dtype=np.float32)


def solve(
    kernel: Floats, targets: Floats, strength: float, cells: Sequence[tuple[NDArray[np.bool_], NDArray[np.bool_]]]
) -> tuple[Floats, Floats]:
    """Dual coefficients (rows, targets), and predictions for every row by what is learned without its cell.

    `cells` are (left out, predicted) masks over the rows; every row is predicted once, and is among those left out then.
    """
    system = kernel + np.eye(len(kernel), dtype=np.float32) * np.float32(strength)
    factor, failed = scipy.linalg.lapack.spotrf(system.T, lower=1, overwrite_a=1)
    if failed:
        raise ValueError("the n-gram kernel is not positive definite; raise reply_strength or user_strength")
    inverse, _ = scipy.linalg.lapack.spotri(factor, lower=1, overwrite_c=1)
    inverse = np.tril(inverse) + np.tril(inverse, -1).T
    coefficients = inverse @ targets
    unseen = np.zeros_like(targets)
    for left_out, predicted in cells:
        out = np.flatnonzero(left_out)
        residual = scipy.linalg.solve(inverse[np.ix_(out, out)], coefficients[out], assume_a="pos", check_finite=False)
        here = predicted[out]
        unseen[out[here]] = targets[out[here]] - residual[here]
    return np.asarray(coefficients, dtype=np.float32), unseen


def weights(vectors: scipy.sparse.csr_array, coefficients: Floats, need: NDArray[np.int64] | None, needs: int) -> tuple[Floats, Floats]:
    """Primal weights (groups, buckets, targets) and constants (groups, targets): one group per need, then one for everybody; without
    `need` one group only."""
    everybody = np.asarray(vectors.T @ coefficients, dtype=np.float32)
    constant = _CONSTANT * coefficients.sum(axis=0)
    if need is None:
        return everybody[None], constant[None]
    groups, constants = [], []
    for number in range(needs):
        rows = np.flatnonzero(need == number)
        groups.append(np.asarray(vectors[rows].T @ coefficients[rows], dtype=np.float32))
        constants.append(_NEED_CONSTANT * coefficients[rows].sum(axis=0))
    return np.stack([*groups, everybody]), np.stack([*constants, constant])
