"""The numbers that decide what is learned and how it is measured; their values live in params.yaml."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class DistilParameters(BaseModel):
    """`params.yaml`, section `distil`. Strengths are ridge penalties on n-gram vectors of unit length."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    bits: int = Field(ge=8, le=20)
    reply_strength: float = Field(gt=0)
    user_strength: float = Field(gt=0)
    reasons: int = Field(ge=0)
    trees: int = Field(ge=1)
    tree_learning_rate: float = Field(gt=0, le=1)
    tree_leaves: int = Field(ge=2)
    leaf_rows: int = Field(ge=1)
    tree_l2: float = Field(ge=0)
    tree_features: float = Field(gt=0, le=1)
    tree_seeds: int = Field(ge=1)
    inner_folds: int = Field(ge=2)
    persona_folds: int = Field(ge=2)
    policy_folds: int = Field(ge=2)
    locked_share: float = Field(gt=0, lt=1)
    rare_grid_share: float = Field(ge=0, lt=0.5)
    odd_share: float = Field(gt=0, lt=0.1)
