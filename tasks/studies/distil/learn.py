"""Learning: ridge regression reads texts, boosted trees read the rest and the readings, quantiles give the grid back.

Whatever a later step learns from, an earlier step has predicted without that row's persona and without its policy model. Ridge regression is in
its dual form, where that costs one inverse: with A = K + strength I and a = A⁻¹ Y, leaving out the rows S changes their residuals to
(A⁻¹_SS)⁻¹ a_S, exactly and without a refit.

Where the recordings end: limits of the guard, from texts of personas and policies that the others do not know.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.sparse
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingRegressor

from rlver.components.settings.study_sections import DistilParameters
from rlver.components.users.distilled import features as columns
from rlver.components.users.distilled.appraiser import Distilled
from rlver.components.users.distilled.features import NAMES, NEEDS
from rlver.components.users.distilled.guard import Guard, GuardLimits, clause_length, marked, variety
from rlver.components.users.distilled.heads import Calibration, Head, Trees
from rlver.components.users.distilled.ngrams import read
from rlver.tasks.studies.distil.examples import (
    CONSTANT,
    NEED_CONSTANT,
    Examples,
    Floats,
    LearningMaterial,
    Masks,
    Numbers,
    inner_cells,
    known_shares,
    masks_of,
    reason_vectors,
)

_BINS = 20  # of the calibration table
_TOO_FEW = (
    "too few recordings: without one persona and its policy model nothing is left to learn from; record more personas with every model"
)


@dataclass(frozen=True, eq=False)
class Learned:
    """What was learned from some rows. Coefficients are dual: one for each of `rows`."""

    rows: NDArray[np.int64]
    reply_coefficients: Floats  # (rows, 1 + reasons)
    user_coefficients: Floats  # (rows, 3)
    by_words: Trees
    by_emotion: Trees  # they are told the emotion too, for the teacher-forced figures; they appraise nothing
    words_calibration: Calibration
    emotion_calibration: Calibration
    usual: Numbers


def learn(material: LearningMaterial, rows: NDArray[np.int64], parameters: DistilParameters, seed: int) -> Learned:
    """Learn from the given rows, whole dialogues of them, and look at no judgement of any other. Raises ValueError for too few."""
    examples = material.examples
    if not len(rows):
        raise ValueError(_TOO_FEW)
    persona, policy = inner_cells(examples, rows, parameters.inner_folds)
    masks = masks_of(persona, policy)
    reasons = reason_vectors(examples, rows, parameters.reasons, parameters.bits, seed)
    change = examples.change[rows]
    reply_targets = np.column_stack([change, reasons]).astype(np.float32)
    user_targets = np.column_stack([change, examples.emotion[rows] - examples.emotion[rows].mean(), examples.last_change[rows]])
    square = np.ix_(rows, rows)
    reply_coefficients, reply_unseen = solve(material.reply_kernel[square], reply_targets, parameters.reply_strength, masks)
    user_coefficients, user_unseen = solve(material.user_kernel[square], user_targets.astype(np.float32), parameters.user_strength, masks)
    words = tree_rows(examples, rows, reply_unseen, user_unseen)
    told = np.column_stack([words, examples.emotion[rows], examples.last_change[rows]])
    return Learned(
        rows=rows,
        reply_coefficients=reply_coefficients,
        user_coefficients=user_coefficients,
        by_words=learn_trees(words, change, parameters, seed),
        by_emotion=learn_trees(told, change, parameters, seed),
        words_calibration=_calibrated(words, change, persona, masks, parameters, seed),
        emotion_calibration=_calibrated(told, change, persona, masks, parameters, seed),
        usual=words.mean(axis=0),
    )


def tree_rows(examples: Examples, rows: NDArray[np.int64], reply_scores: Floats, user_scores: Floats) -> Numbers:
    """(rows, columns) for the trees, from the heads' readings of the same rows."""
    made, begin = np.empty((len(rows), len(columns.names(reply_scores.shape[1] - 1)))), 0
    replies, users = reply_scores.astype(np.float64), user_scores.astype(np.float64)
    for place, row in enumerate(rows):
        begin = place if examples.turn[row] == 0 else begin
        made[place] = columns.row(examples.measured[row], replies[begin : place + 1], users[begin : place + 1])
    return made


def readings(material: LearningMaterial, learned: Learned, rows: NDArray[np.int64]) -> Numbers:
    """(rows, columns) of rows that were not learned from."""
    across = np.ix_(rows, learned.rows)
    reply_scores = material.reply_kernel[across] @ learned.reply_coefficients
    user_scores = material.user_kernel[across] @ learned.user_coefficients
    return tree_rows(material.examples, rows, reply_scores, user_scores)


def grid_of(change: Numbers, rare_share: float) -> tuple[int, ...]:
    """The changes that users gave, without those rarer than `rare_share`; the most frequent always."""
    values, counts = np.unique(change.astype(int), return_counts=True)
    return tuple(
        int(value) for value, count in zip(values, counts, strict=True) if count > rare_share * len(change) or count == counts.max()
    )


def calibration(expected: Numbers, change: Numbers, grid: tuple[int, ...]) -> Calibration:
    """From predictions of rows that were not learned from: thresholds that give every value of the grid its recorded share."""
    nearest = np.array(grid)[np.abs(change[:, None] - np.array(grid)[None]).argmin(axis=1)]
    shares = np.cumsum([float(np.mean(nearest == value)) for value in grid])[:-1]
    order = np.argsort(expected, kind="stable")
    bins = [part for part in np.array_split(order, min(_BINS, len(order))) if len(part)]
    positive = np.array([float(np.mean(change[part] > 0)) for part in bins])
    return Calibration(
        grid=grid,
        thresholds=np.quantile(expected, shares) if len(grid) > 1 else np.empty(0),
        expected=np.array([float(expected[part].mean()) for part in bins]),
        positive=np.maximum.accumulate(positive),
        spread=np.array([float(np.sqrt(np.mean((change[part] - expected[part]) ** 2))) for part in bins]),
    )


def _calibrated(
    rows: Numbers, change: Numbers, persona: NDArray[np.int64], masks: list[Masks], parameters: DistilParameters, seed: int
) -> Calibration:
    """One cell of each persona fold is predicted by trees that saw neither its personas nor its policies: every row once would cost as
    many trees as there are cells."""
    alone = parameters.model_copy(update={"tree_seeds": 1})
    expected, seen = np.zeros(len(change)), np.zeros(len(change), dtype=bool)
    for number, fold in enumerate(sorted(set(persona.tolist()))):
        of_fold = [mask for mask in masks if np.all(persona[mask[1]] == fold)]
        left_out, predicted = of_fold[number % len(of_fold)]
        if left_out.all():
            raise ValueError(_TOO_FEW)
        trees = learn_trees(rows[~left_out], change[~left_out], alone, seed)
        expected[predicted], seen[predicted] = trees.predict(rows[predicted]), True
    return calibration(expected[seen], change[seen], grid_of(change, parameters.rare_grid_share))


def distilled(material: LearningMaterial, learned: Learned, parameters: DistilParameters) -> Distilled:
    """What was learned, in the form that appraises; its digest is given when it is written."""
    examples, rows = material.examples, learned.rows
    reply_weight, reply_constant = weights(material.reply_vectors[rows], learned.reply_coefficients, examples.need[rows])
    user_weight, user_constant = weights(material.user_vectors[rows], learned.user_coefficients, None)
    return Distilled(
        digest="",
        reply_head=Head(reply_weight.astype(np.float16), reply_constant.astype(np.float32)),
        user_head=Head(user_weight.astype(np.float16), user_constant.astype(np.float32)),
        trees=learned.by_words,
        calibration=learned.words_calibration,
        guard=learned_guard(examples, rows, parameters),
        usual=learned.usual,
    )


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


def weights(vectors: scipy.sparse.csr_array, coefficients: Floats, need: NDArray[np.int64] | None) -> tuple[Floats, Floats]:
    """Primal weights (groups, buckets, targets) and constants (groups, targets): one group per need, then one for everybody; without
    `need` one group only."""
    everybody = np.asarray(vectors.T @ coefficients, dtype=np.float32)
    constant = CONSTANT * coefficients.sum(axis=0)
    if need is None:
        return everybody[None], constant[None]
    groups, constants = [], []
    for number in range(len(NEEDS)):
        rows = np.flatnonzero(need == number)
        groups.append(np.asarray(vectors[rows].T @ coefficients[rows], dtype=np.float32))
        constants.append(NEED_CONSTANT * coefficients[rows].sum(axis=0))
    return np.stack([*groups, everybody]), np.stack([*constants, constant])


def learn_trees(rows: Numbers, target: Numbers, parameters: DistilParameters, seed: int) -> Trees:
    """The mean of `tree_seeds` boosted ensembles that differ in their random choice of features."""
    return arrays_of(
        [
            HistGradientBoostingRegressor(
                max_iter=parameters.trees,
                learning_rate=parameters.tree_learning_rate,
                max_leaf_nodes=parameters.tree_leaves,
                min_samples_leaf=parameters.leaf_rows,
                l2_regularization=parameters.tree_l2,
                max_features=parameters.tree_features,
                early_stopping=False,
                random_state=seed + number,
            ).fit(rows, target)
            for number in range(parameters.tree_seeds)
        ]
    )


def arrays_of(ensembles: Sequence[HistGradientBoostingRegressor]) -> Trees:
    """Their mean. scikit-learn has no public way to its nodes; a test compares the predictions of both."""
    nodes = [tree[0].nodes for fitted in ensembles for tree in fitted._predictors]
    begins = np.cumsum([0, *(len(one) for one in nodes)])[:-1]
    every = np.concatenate(nodes)
    begin = np.repeat(begins, [len(one) for one in nodes])
    itself, leaf = np.arange(len(every)), every["is_leaf"].astype(bool)
    return Trees(
        feature=np.where(leaf, 0, every["feature_idx"]).astype(np.int32),
        threshold=np.where(leaf, 0.0, every["num_threshold"]),
        left=np.where(leaf, itself, every["left"] + begin).astype(np.int32),
        right=np.where(leaf, itself, every["right"] + begin).astype(np.int32),
        value=np.where(leaf, every["value"], 0.0) / len(ensembles),
        root=begins.astype(np.int32),
        depth=int(every["depth"].max()),
        baseline=sum(float(np.ravel(fitted._baseline_prediction)[0]) for fitted in ensembles) / len(ensembles),
    )


_NOTHING_KNOWN = 0.05  # a reply with a smaller share of known runs is gibberish, also where recorded policies have as little in common
_NEARLY_THE_SAME = 0.8  # an earlier reply with this share of a reply's runs said the same, also where recorded policies do so often


def learned_guard(examples: Examples, rows: NDArray[np.int64], parameters: DistilParameters) -> Guard:
    """All but `odd_share` of the recorded replies, and of what recorded users had said by the end, lie within each limit; but limits that
    would find no gibberish, or no repetition, are not taken."""
    persona, policy = inner_cells(examples, rows, parameters.inner_folds)
    texts, odd = [examples.reply[row] for row in rows], parameters.odd_share
    reads = [read(text) for text in texts]
    speakers = policy if len(set(policy.tolist())) > 1 else persona
    of_dialogue = [np.flatnonzero(examples.dialogue[rows] == number) for number in dict.fromkeys(examples.dialogue[rows].tolist())]
    said = ["\n".join(examples.user[rows[place]] for place in places) for places in of_dialogue]
    fold = np.array([persona[places[0]] for places in of_dialogue])
    repeated = examples.measured[rows, NAMES.index("repeats_one_reply")]
    limits = GuardLimits(
        longest=int(max(text.size for text in reads)),
        reply_known=max(float(np.quantile(known_shares(texts, speakers), odd)), _NOTHING_KNOWN),
        user_known=float(np.quantile(known_shares(said, fold), odd)),
        clause=float(np.quantile([clause_length(text) for text in reads], odd)),
        variety=float(np.quantile([variety(text) for text in reads], odd)),
        repetition=min(float(np.quantile(repeated, 1 - odd)), _NEARLY_THE_SAME),
    )
    return Guard(marked(reads), marked([read(examples.user[row]) for row in rows]), limits)


def refused_personas(examples: Examples, learned: Sequence[int], tested: Sequence[int], parameters: DistilParameters) -> dict[str, int]:
    """How many personas of the dialogues `tested` a guard learned from the dialogues `learned` takes for strangers after any message."""
    guard = learned_guard(examples, examples.rows_of(learned), parameters)
    refused = set()
    for number in tested:
        users = [read(examples.user[row]) for row in examples.rows_of([number])]
        if any(guard.strangeness(users[: end + 1]) is not None for end in range(len(users))):
            refused.add(examples.dialogues[number].persona_id)
    return {"personas": len({examples.dialogues[number].persona_id for number in tested}), "refused": len(refused)}
