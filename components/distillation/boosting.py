"""Learning boosted trees with scikit-learn, and taking their arrays out of it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingRegressor

from components.distillation.parameters import DistilParameters
from components.simulator.distilled.trees import Trees


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
