"""Transcripts as a table, one row a dialogue: what is told of a file that scoring refuses.

Dialogues are checked one by one as they are read, and the first bad one stops. Only then is the file read once more as a table, so that all its
bad cells are named at once; a good file costs nothing more.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pandera.pandas as pa
from pandera.typing import Series

from rlver.components.domain.emotion import HIGHEST, LOWEST, EmotionRules
from rlver.components.domain.files import BadFile, read_jsonl
from rlver.components.domain.tables import listed, one_of, table_faults, whole
from rlver.components.domain.transcript import Dialogue, StopReason
from rlver.components.rollout.transcripts import load_transcripts


class DialogueTable(pa.DataFrameModel):
    """The flat part of a dialogue; its turns and their arithmetic are checked where they are read."""

    dialogue_id: Series[pd.StringDtype] = pa.Field(unique=True)
    persona_id: Series[pd.StringDtype]
    hidden_need: Series[pd.StringDtype] = pa.Field(nullable=True)
    policy: Series[pd.StringDtype]
    seed: Series[pd.Int64Dtype]
    emotion_start: Series[pd.Int64Dtype] = whole(LOWEST, HIGHEST)
    emotion_final: Series[pd.Int64Dtype] = whole(LOWEST, HIGHEST, nullable=True)
    stop_reason: Series[pd.StringDtype] = one_of(list(StopReason))


def load_scored(path: Path, rules: EmotionRules | None = None) -> list[Dialogue]:
    """As `load_transcripts`; its BadFile names, after the first bad line, the bad cells of all lines."""
    try:
        return load_transcripts(path, rules)
    except BadFile as first:
        found = _bad_cells(path)
        if not found:
            raise
        raise BadFile(f"{first}; in all: {found}") from first


def _bad_cells(path: Path) -> str:
    """Empty where the cells are not what is wrong, or where the file is no table at all."""
    try:
        rows = list(read_jsonl(path))
    except BadFile:
        return ""  # the first message says so
    faults = table_faults(DialogueTable, [row for _, row in rows])
    return listed(path, [line for line, _ in rows], faults) if faults else ""
