"""Where the recordings end: limits of the guard, from texts of personas and policies that the others do not know."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from components.distillation.examples import Examples
from components.distillation.material import inner_cells, known_shares
from components.distillation.parameters import DistilParameters
from components.simulator.distilled.guard import Guard, Limits, clause_length, marked, variety
from components.simulator.distilled.measures import NAMES
from components.simulator.distilled.ngrams import read

_NEARLY_THE_SAME = 0.8  # an earlier reply with this share of a reply's runs said the same, also where recorded policies do so often


def learned_guard(examples: Examples, rows: NDArray[np.int64], parameters: DistilParameters) -> Guard:
    """All but `odd_share` of the recorded replies, and of what recorded users had said by the end, lie within each limit."""
    persona, policy = inner_cells(examples, rows, parameters.inner_folds)
    texts, odd = [examples.reply[row] for row in rows], parameters.odd_share
    reads = [read(text) for text in texts]
    speakers = policy if len(set(policy.tolist())) > 1 else persona
    of_dialogue = [np.flatnonzero(examples.dialogue[rows] == number) for number in dict.fromkeys(examples.dialogue[rows].tolist())]
    said = ["\n".join(examples.user[rows[place]] for place in places) for places in of_dialogue]
    fold = np.array([persona[places[0]] for places in of_dialogue])
    repeated = examples.measured[rows, NAMES.index("repeats_one_reply")]
    limits = Limits(
        longest=int(max(text.size for text in reads)),
        reply_known=float(np.quantile(known_shares(texts, speakers), odd)),
        user_known=float(np.quantile(known_shares(said, fold), odd)),
        clause=float(np.quantile([clause_length(text) for text in reads], odd)),
        variety=float(np.quantile([variety(text) for text in reads], odd)),
        repetition=min(float(np.quantile(repeated, 1 - odd)), _NEARLY_THE_SAME),
    )
    return Guard(marked(reads), marked([read(examples.user[row]) for row in rows]), limits)
