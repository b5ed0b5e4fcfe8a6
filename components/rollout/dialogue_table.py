"""The flat part of dialogues as a typed table: how a bad cell of a transcript file is named. Read only when a file is refused, as pandera
takes half a second to load and is not in every installation.
"""

from __future__ import annotations

import pandas as pd
import pandera.pandas as pa
from pandera.typing import Series

from rlver.components.domain.emotion import HIGHEST, LOWEST
from rlver.components.domain.tables import one_of, whole
from rlver.components.domain.transcript import StopReason


class DialogueTable(pa.DataFrameModel):
    """One row a dialogue; turns and their arithmetic are checked where they are read."""

    dialogue_id: Series[pd.StringDtype] = pa.Field(unique=True)
    persona_id: Series[pd.StringDtype]
    hidden_need: Series[pd.StringDtype] = pa.Field(nullable=True)
    policy: Series[pd.StringDtype]
    seed: Series[pd.Int64Dtype]
    emotion_start: Series[pd.Int64Dtype] = whole(LOWEST, HIGHEST)
    emotion_final: Series[pd.Int64Dtype] = whole(LOWEST, HIGHEST, nullable=True)
    stop_reason: Series[pd.StringDtype] = one_of(list(StopReason))
