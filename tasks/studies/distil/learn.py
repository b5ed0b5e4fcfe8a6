"""Learning: ridge regression reads texts, boosted trees read the rest and the readings, quantiles give the grid back.

Whatever a later step learns from, an earlier step has predicted without that row's persona and without its policy model.

Learning boosted trees with scikit-learn, and taking their arrays out of it.

Where the recordings end: limits of the guard, from texts of personas and policies that the others do not know.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingRegressor

from rlver.components.settings.study_sections import DistilParameters
from rlver.components.users.distilled import features as columns
from rlver.components.users.distilled.features import NAMES, NEEDS
from rlver.components.users.distilled.guard import Guard, GuardLimits, clause_length, marked, variety
from rlver.components.users.distilled.heads import Calibration, Head, Trees
from rlver.components.users.distilled.model import LEAST_USER_UNITS, Distilled
from rlver.components.users.distilled.ngrams import read
from rlver.tasks.studies.distil.examples import Examples, LearningMaterial, Masks, inner_cells, known_shares, masks_of, reason_vectors
from rlver.tasks.studies.distil.ridge import Floats, solve, weights

_BINS = 20  # of the calibration table
_TOO_FEW = (
    "too few recordings: without one persona and its policy model nothing is left to learn from; record more personas with every model"
)

Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Learned:
    """What was learned from some rows. Coefficients are dual: one for each of `rows`."""

    rows: NDArray[np.int64]
    reply_coefficients: Floats  # (rows, 1 + reasons)
    user_coefficients: Floats  # (rows, 3)
    by_words: Trees
    by_emotion: Trees
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
    grid = grid_of(change, parameters.rare_grid_share)
    return Learned(
        rows=rows,
        reply_coefficients=reply_coefficients,
        user_coefficients=user_coefficients,
        by_words=learn_trees(words, change, parameters, seed),
        by_emotion=learn_trees(told, change, parameters, seed),
        words_calibration=_calibrated(words, change, grid, persona, masks, parameters, seed),
        emotion_calibration=_calibrated(told, change, grid, persona, masks, parameters, seed),
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
    """The changes that users gave, without those rarer than `rare_share`."""
    values, counts = np.unique(change.astype(int), return_counts=True)
    return tuple(int(value) for value, count in zip(values, counts, strict=True) if count > rare_share * len(change))


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
    rows: Numbers,
    change: Numbers,
    grid: tuple[int, ...],
    persona: NDArray[np.int64],
    masks: list[Masks],
    parameters: DistilParameters,
    seed: int,
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
    return calibration(expected[seen], change[seen], grid)


def distilled(material: LearningMaterial, learned: Learned, parameters: DistilParameters) -> Distilled:
    """What was learned, in the form that appraises; its digest is given when it is written."""
    examples, rows = material.examples, learned.rows
    reply_weight, reply_constant = weights(material.reply_vectors[rows], learned.reply_coefficients, examples.need[rows], len(NEEDS))
    user_weight, user_constant = weights(material.user_vectors[rows], learned.user_coefficients, None, 0)
    return Distilled(
        digest="",
        reply_head=Head(reply_weight.astype(np.float16), reply_constant.astype(np.float32)),
        user_head=Head(user_weight.astype(np.float16), user_constant.astype(np.float32)),
        by_words=learned.by_words,
        by_emotion=learned.by_emotion,
        words_calibration=learned.words_calibration,
        emotion_calibration=learned.emotion_calibration,
        guard=learned_guard(examples, rows, parameters),
        usual=learned.usual,
    )


def learn_trees(rows: NDArray[np.float64], target: NDArray[np.float64], parameters: DistilParameters, seed: int) -> Trees:
    """The mean of `tree_seeds` boosted ensembles that differ in their random choice of features."""
    return _averaged([_arrays(_fitted(rows, target, parameters, seed + number)) for number in range(parameters.tree_seeds)])


def _fitted(
    rows: NDArray[np.float64], target: NDArray[np.float64], parameters: DistilParameters, seed: int
) -> HistGradientBoostingRegressor:
    return HistGradientBoostingRegressor(
        max_iter=parameters.trees,
        learning_rate=parameters.tree_learning_rate,
        max_leaf_nodes=parameters.tree_leaves,
        min_samples_leaf=parameters.leaf_rows,
        l2_regularization=parameters.tree_l2,
        max_features=parameters.tree_features,
        early_stopping=False,
        random_state=seed,
    ).fit(rows, target)


def _arrays(fitted: HistGradientBoostingRegressor) -> Trees:
    """scikit-learn has no public way to its nodes; a test compares the predictions of both."""
    nodes = [tree[0].nodes for tree in fitted._predictors]
    begins = np.cumsum([0, *(len(one) for one in nodes)])[:-1]
    every = np.concatenate(nodes)
    begin = np.repeat(begins, [len(one) for one in nodes])
    itself, leaf = np.arange(len(every)), every["is_leaf"].astype(bool)
    return Trees(
        feature=np.where(leaf, 0, every["feature_idx"]).astype(np.int32),
        threshold=np.where(leaf, 0.0, every["num_threshold"]),
        left=np.where(leaf, itself, every["left"] + begin).astype(np.int32),
        right=np.where(leaf, itself, every["right"] + begin).astype(np.int32),
        value=np.where(leaf, every["value"], 0.0),
        root=begins.astype(np.int32),
        depth=int(every["depth"].max()),
        baseline=float(np.ravel(fitted._baseline_prediction)[0]),
    )


def _averaged(parts: list[Trees]) -> Trees:
    shift = np.cumsum([0, *(len(part.value) for part in parts)])[:-1]
    return Trees(
        feature=np.concatenate([part.feature for part in parts]),
        threshold=np.concatenate([part.threshold for part in parts]),
        left=np.concatenate([part.left + begin for part, begin in zip(parts, shift, strict=True)]).astype(np.int32),
        right=np.concatenate([part.right + begin for part, begin in zip(parts, shift, strict=True)]).astype(np.int32),
        value=np.concatenate([part.value for part in parts]) / len(parts),
        root=np.concatenate([part.root + begin for part, begin in zip(parts, shift, strict=True)]).astype(np.int32),
        depth=max(part.depth for part in parts),
        baseline=sum(part.baseline for part in parts) / len(parts),
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
        said = [users[: end + 1] for end in range(len(users)) if sum(text.size for text in users[: end + 1]) >= LEAST_USER_UNITS]
        if any(guard.known_of_user(so_far) < guard.limits.user_known for so_far in said):
            refused.add(examples.dialogues[number].persona_id)
    return {"personas": len({examples.dialogues[number].persona_id for number in tested}), "refused": len(refused)}
