"""The audit of one policy, from what is on disk: its dialogues, the base's, the log of its training, and an honest reference.

Of a variant, the training log and kept held-out dialogues are found by themselves; of a transcript file only what is given. Every habit is
judged with its interval, beside the base's and the reference's on the same personas.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rlver.components.domain.files import BadFile
from rlver.components.domain.persona import Persona
from rlver.components.domain.transcript import Dialogue
from rlver.components.report.material import Checkpoints, Material, Variant, load_checkpoints
from rlver.components.report.panels.panel import Sources
from rlver.components.rollout.transcripts import load_transcripts
from rlver.components.scoring.splits import refuse_mixed_policies
from rlver.components.scoring.statistics import Estimated, Interval, paired_differences
from rlver.components.scoring.units import Sampling
from rlver.components.settings.overlays import SettingsError, UnknownVariant
from rlver.components.settings.settings import Settings, load_settings
from rlver.components.settings.study_sections import AuditParameters
from rlver.tasks.runtime.appraisers import file_of_variant
from rlver.tasks.studies.audit.checks import Check, CheckOutcome, Row, as_factor, judged, log_checks, overall, read_log, unknown
from rlver.tasks.studies.audit.measures import MEASURES, Measure, MeasureKind, Values, log_words, speak_english
from rlver.tasks.studies.audit.opinions import (
    UNCONFIRMED_GAIN,
    Recorded,
    SecondAppraiser,
    confirmation,
    kept_by_reference,
    other_difficulty,
)
from rlver.tasks.studies.audit.over_training import means_by_step, reward_overoptimization, two_series
from rlver.tasks.studies.audit.reference import NoReference, Reference, configured, mean_final

LOGS = Path("logs")
LEAST_PERSONAS = 10  # below them nothing is called clean: most checks compare what different personas are told


def audit(
    dialogues: Sequence[Dialogue],
    base: Sequence[Dialogue] | None,
    log: Sequence[Row] | None,
    checkpoints: Checkpoints,
    second: SecondAppraiser,
    reference: Reference | NoReference,
    parameters: AuditParameters,
    how: Sampling,
) -> dict[str, Any]:
    """Every check as JSON-ready values: `policy`, `dialogues`, `second_appraiser`, `reference`, `outcome`, `why`, `checks`,
    `reward_overoptimization`.

    `base` is None for the base itself, `log` None and `checkpoints` empty where none were kept; what then cannot be judged is unknown, with the
    reason. With too few personas the outcome is unknown unless a check alarms, and `why` says so.
    Raises ValueError without dialogues, and for those of several policies.
    """
    if not dialogues:
        raise ValueError("there are no dialogues to audit")
    for side in (dialogues, base or ()):
        refuse_mixed_policies(side)
    series, share, limits = two_series(checkpoints, second), parameters.confirmed_share, parameters.limits
    kept = kept_by_reference(reference, base, second, how)
    other_users = {one.simulator for step in checkpoints.values() for one in step} - {one.simulator for one in dialogues}
    expected = NoReference("the held-out dialogues are of other users than the transcripts") if other_users else kept
    checks = [
        *habit_checks(dialogues, base, reference, parameters, how),
        confirmation(dialogues, base, second, reference, share, limits.unconfirmed_gain, how),
        reward_overoptimization(series, expected, share, limits.reward_overoptimization, how),
        *log_checks(log, parameters),
    ]
    outcome, personas = overall(checks), len({dialogue.persona_id for dialogue in dialogues})
    gain = next(check for check in checks if check.name == UNCONFIRMED_GAIN)
    if outcome is CheckOutcome.CLEAN and base is not None and gain.outcome is CheckOutcome.UNKNOWN:
        outcome = CheckOutcome.UNKNOWN  # whether anybody else sees the gain is what the audit is for
    is_thin = personas < LEAST_PERSONAS and outcome is not CheckOutcome.ALARM
    return {
        "policy": dialogues[0].policy,
        "dialogues": len(dialogues),
        "second_appraiser": second.name,
        "reference": _reference(reference, kept),
        "outcome": str(CheckOutcome.UNKNOWN if is_thin else outcome),
        "why": f"too few personas: {personas} of at least {LEAST_PERSONAS}" if is_thin else _why(outcome, checks),
        "checks": [check.as_json() for check in checks],
        "reward_overoptimization": means_by_step(series, how),
    }


def _reference(reference: Reference | NoReference, kept: Estimated | NoReference) -> dict[str, Any]:
    """`why` says what is missing: of everything, or of the share of its gain that the second appraiser confirms."""
    if isinstance(reference, NoReference):
        return {"skill": None, "final": None, "of_policy": None, "dialogues": 0, "kept": None, "why": f"not measured: {reference.why}"}
    return {
        "skill": round(reference.skill, 3),
        "final": mean_final(reference.dialogues),
        "of_policy": mean_final(reference.matched),
        "dialogues": len(reference.dialogues) * reference.tried,
        "kept": None if isinstance(kept, NoReference) else {"value": kept.value, "ci95": list(kept.ci95), "n": kept.n},
        "why": f"not measured: {kept.why}" if isinstance(kept, NoReference) else "",
    }


def _why(outcome: CheckOutcome, checks: Sequence[Check]) -> str:
    """What keeps the outcome from saying more: checks that chance leaves open, and where there are none, those that were not made."""
    if outcome is CheckOutcome.ALARM:
        return ""
    is_made = any(check.outcome is CheckOutcome.UNKNOWN and check.value is not None for check in checks)
    named = [check.name for check in checks if check.outcome is CheckOutcome.UNKNOWN and (check.value is not None) == is_made]
    return f"{'undecided' if is_made else 'not judged'}: {', '.join(named)}" if named else ""


_SHARES, _DIFFERENCES = Interval(0.0, 1.0), Interval(-1.0, 1.0)
_OF_LEADS = Interval(-2.0, 2.0)  # a lead is a difference of shares already
_LOGARITHMS = Interval(-math.inf, math.inf)
_MOST_EXAMPLE_CHARACTERS = 80


def habit_checks(
    dialogues: Sequence[Dialogue],
    base: Sequence[Dialogue] | None,
    reference: Reference | NoReference,
    parameters: AuditParameters,
    how: Sampling,
) -> list[Check]:
    """One check per measure, and the length of the replies beside the base's where there is one."""
    english = speak_english(turn.user for dialogue in dialogues for turn in dialogue.turns)
    limits: Mapping[str, float] = parameters.limits.model_dump()
    checks = []
    for measure in MEASURES:
        if measure.reads_english and not english:
            checks.append(unknown(measure.name, limits[measure.name], "it is read in English only, and the users speak something else"))
            continue
        values = measure.of(dialogues, parameters.run_words)
        if not values:
            checks.append(unknown(measure.name, limits[measure.name], f"{measure.meaning}: no reply to measure it on"))
            continue
        theirs = {} if base is None else measure.of(base, parameters.run_words)
        honest = {} if isinstance(reference, NoReference) else measure.of(reference.dialogues, parameters.run_words)
        checks.append(
            judged(
                measure.name,
                _estimated(measure.kind, values, how),
                limits[measure.name],
                measure.meaning + _example(measure, dialogues),
                _compared(measure.kind, values, theirs, how),
                _estimated(measure.kind, honest, how) if honest else None,
            )
        )
    return [*checks, _length_to_base(dialogues, base, limits["length_to_base"], how)]


def _estimated(kind: MeasureKind, values: Values, how: Sampling) -> Estimated:
    if kind is MeasureKind.SHARE:
        return how.units.share(values)
    if kind is MeasureKind.RATIO:
        return as_factor(how.mean(values, _LOGARITHMS, of_differences=True))  # of two logarithms
    is_lead = kind is MeasureKind.LEAD
    estimated = how.mean(values, _DIFFERENCES if is_lead else _SHARES, is_lead)
    is_spread = len({value for of_persona in values.values() for value in of_persona}) > 1  # Hoeffding's factor is one of a standard error
    return _of_pairs(estimated, _SHARES) if kind is MeasureKind.CHANCE and is_spread else estimated


def _compared(kind: MeasureKind, values: Values, theirs: Values, how: Sampling) -> Estimated | None:
    """Ours minus theirs by persona; a factor for ratios. None without a persona that both met."""
    differences = paired_differences(values, theirs)
    if not differences:
        return None
    if kind is MeasureKind.RATIO:
        return as_factor(how.paired_mean(differences, _LOGARITHMS))
    estimated = how.paired_mean(differences, _OF_LEADS if kind is MeasureKind.LEAD else _DIFFERENCES)
    return _of_pairs(estimated, _DIFFERENCES) if kind is MeasureKind.CHANCE else estimated


def _of_pairs(estimated: Estimated, within: Interval) -> Estimated:
    """The interval of an average over pairs of personas: twice as wide as that of an average over single ones (Hoeffding, 1948)."""
    value, (low, high) = estimated.value, estimated.ci95
    return Estimated(value, Interval(max(within.low, 2 * low - value), min(within.high, 2 * high - value)), estimated.n)


def _length_to_base(dialogues: Sequence[Dialogue], base: Sequence[Dialogue] | None, limit: float, how: Sampling) -> Check:
    if base is None:
        return unknown("length_to_base", limit, "words per reply over those of the base: no transcripts of the base")
    factor = _compared(MeasureKind.RATIO, log_words(dialogues), log_words(base), how)
    if factor is None:
        return unknown("length_to_base", limit, "words per reply over those of the base: no persona met both")
    return judged("length_to_base", factor, limit, "words per reply over those of the base, same personas")


def _example(measure: Measure, dialogues: Sequence[Dialogue]) -> str:
    """The first reply that shows the habit, quoted; nothing where none does."""
    if measure.example is None:
        return ""
    turns = (turn for dialogue in dialogues for turn in dialogue.turns[: None if measure.reads_last_turn else -1])
    shown = next((turn.assistant for turn in turns if measure.example(turn)), None)
    if shown is None:
        return ""
    text = " ".join(shown.split())
    return f"; for example {text[:_MOST_EXAMPLE_CHARACTERS]!r}{'…' if len(text) > _MOST_EXAMPLE_CHARACTERS else ''}"


_SEED = re.compile(r"-s\d+$")  # at the end of a name in the paper run
_VARIANT = re.compile(r"[\w.-]+")  # how a variant may be called, that a transcript names as its policy


@dataclass(frozen=True)
class Audited:
    """One policy on disk. `log` is None where no training was logged."""

    name: str
    dialogues: Sequence[Dialogue]
    log: Path | None
    checkpoints: Checkpoints
    paid: Collection[str] | SettingsError = ()  # see paid_in_training

    @staticmethod
    def of(named: Path, log: Path | None, params: Path | None = None) -> Audited:
        """A transcript file, or the name of a variant, whose overlay lies beside `params`. Raises BadFile."""
        if log is not None and not log.is_file():
            raise BadFile(f"{log}: no such file")
        if variant := file_of_variant(named):
            training = training_of(log or LOGS / named / "train.jsonl")
            return Audited(str(named), load_transcripts(variant), *training, paid_in_training(params, str(named)))
        dialogues = load_transcripts(named)
        paid = paid_in_training(params, dialogues[0].policy) if dialogues and _VARIANT.fullmatch(dialogues[0].policy) else ()
        return Audited(str(named), dialogues, *((None, {}) if log is None else training_of(log)), paid)


def training_of(log: Path) -> tuple[Path | None, Checkpoints]:
    """The log, None if it is not there, and the held-out dialogues kept beside it. Raises BadFile."""
    return (log if log.is_file() else None), load_checkpoints(log.parent / "held_out")


def paid_in_training(params: Path | None, variant: str) -> Collection[str] | SettingsError:
    """Difficulties of the scripted appraiser that paid when this variant was trained; none where it has no overlay, or another one paid.

    The error of an overlay that no longer holds: one such variant must not stop the audit of the others.
    """
    if params is None:
        return ()
    try:
        settings = load_settings(params, variant)
    except UnknownVariant:
        without_seed = _SEED.sub("", variant)
        return () if without_seed == variant else paid_in_training(params, without_seed)
    except SettingsError as error:
        return error
    appraiser = settings.simulator.parts[0]
    return [appraiser.which or one for one in settings.train.difficulties] if appraiser.name == "scripted" else ()


def audit_one(
    policy: Audited,
    base: Sequence[Dialogue] | None,
    settings: Settings,
    personas: Mapping[str, Persona],
    second: Recorded | None = None,
) -> dict[str, Any]:
    """The audit of one policy with everything of it that is on disk, beside an honest reference that talks with the same users now."""
    return audit(
        policy.dialogues,
        base,
        None if policy.log is None else read_log(policy.log),
        policy.checkpoints,
        second or other_difficulty(policy.dialogues, personas, settings.simulator.rules, policy.paid),
        configured(policy.dialogues, personas, settings),
        settings.audit,
        Sampling.over(personas.values(), settings.evaluation.bootstrap_samples, settings.seed),
    )


def with_audits(material: Material, sources: Sources) -> Material:
    """The material of a report with the audit of every variant among its metrics.

    The second appraiser knows the class and traits of the sources' personas; of others the recorded need alone.
    """
    base = None if material.base is None else material.base.dialogues
    known = {persona.persona_id: persona for persona in sources.personas}

    def audited(variant: Variant) -> Variant:
        log = None if sources.logs is None else sources.logs / variant.name / "train.jsonl"
        paid = paid_in_training(sources.params, variant.name)
        policy = Audited(variant.name, variant.dialogues, log if log and log.is_file() else None, variant.checkpoints, paid)
        found = audit_one(policy, None if variant.is_base else base, sources.settings, known)
        return replace(variant, metrics={**variant.metrics, "audit": found})

    return replace(material, variants=tuple(audited(variant) for variant in material.variants))
