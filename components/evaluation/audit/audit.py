"""The audit of one policy, from what is on disk: its dialogues, the base's, the log of its training. Nothing is rolled out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from components.dialogue.transcript import Dialogue
from components.evaluation.audit.checks import Outcome, overall
from components.evaluation.audit.habits import habit_checks
from components.evaluation.audit.opinions import SecondAppraiser, confirmation
from components.evaluation.audit.over_training import means_by_step, parting_check, two_series
from components.evaluation.audit.parameters import AuditParameters
from components.evaluation.audit.training_log import Row, log_checks
from components.evaluation.checkpoints import Checkpoints

LEAST_PERSONAS = 10  # below them nothing is called clean: most checks compare what different personas are told


def audit(
    dialogues: Sequence[Dialogue],
    base: Sequence[Dialogue] | None,
    log: Sequence[Row] | None,
    checkpoints: Checkpoints,
    second: SecondAppraiser,
    parameters: AuditParameters,
    samples: int,
    seed: int,
) -> dict[str, Any]:
    """Every check as JSON-ready values: `policy`, `dialogues`, `second_appraiser`, `outcome`, `why`, `checks`, `over_training`.

    `base` is None for the base itself, `log` None and `checkpoints` empty where none were kept; what then cannot be judged is unknown, with the
    reason. With too few personas the outcome is unknown unless a check alarms, and `why` says so. `samples` and `seed` are those of the bootstrap. Raises ValueError without dialogues.
    """
    if not dialogues:
        raise ValueError("there are no dialogues to audit")
    series = two_series(checkpoints, second)
    checks = [
        *habit_checks(dialogues, base, parameters, samples, seed),
        confirmation(dialogues, base, second, parameters.confirmed_share, parameters.limits.unconfirmed_gain, samples, seed),
        parting_check(series, parameters.confirmed_share, parameters.limits.parting, samples, seed),
        *log_checks(log, parameters),
    ]
    outcome, personas = overall(check.outcome for check in checks), len({dialogue.persona_id for dialogue in dialogues})
    is_thin = personas < LEAST_PERSONAS and outcome is not Outcome.ALARM
    return {
        "policy": dialogues[0].policy,
        "dialogues": len(dialogues),
        "second_appraiser": second.name,
        "outcome": str(Outcome.UNKNOWN if is_thin else outcome),
        "why": f"too few personas: {personas} of at least {LEAST_PERSONAS}" if is_thin else "",
        "checks": [check.as_json() for check in checks],
        "over_training": means_by_step(series, samples, seed),
    }
