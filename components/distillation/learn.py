"""Learning: ridge regression reads texts, boosted trees read the rest and the readings, quantiles give the grid back.

Whatever a later step learns from, an earlier step has predicted without that row's persona and without its policy model.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from components.distillation.boosting import learn_trees
from components.distillation.examples import Examples
from components.distillation.limits import learned_guard
from components.distillation.material import Masks, Material, inner_cells, masks_of, reason_vectors
from components.distillation.parameters import DistilParameters
from components.distillation.ridge import Floats, solve, weights
from components.simulator.distilled import columns
from components.simulator.distilled.calibration import Calibration
from components.simulator.distilled.heads import Head
from components.simulator.distilled.model import Distilled
from components.simulator.distilled.moment import NEEDS
from components.simulator.distilled.trees import Trees

_BINS = 20  # of the calibration table

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


def learn(material: Material, rows: NDArray[np.int64], parameters: DistilParameters, seed: int) -> Learned:
    """Learn from the given rows, whole dialogues of them, and look at no judgement of any other."""
    examples = material.examples
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


def readings(material: Material, learned: Learned, rows: NDArray[np.int64]) -> Numbers:
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
        trees = learn_trees(rows[~left_out], change[~left_out], alone, seed)
        expected[predicted], seen[predicted] = trees.predict(rows[predicted]), True
    return calibration(expected[seen], change[seen], grid)


def distilled(material: Material, learned: Learned, parameters: DistilParameters) -> Distilled:
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
