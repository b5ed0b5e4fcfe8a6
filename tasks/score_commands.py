"""What `rlver score` and `rlver compare` do: read transcripts, measure, and lay the numbers out for a terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from components.dialogue.transcript import Dialogue
from components.evaluation.leaderboard import Row
from components.evaluation.leaderboard import compare as paired
from components.evaluation.sentient import sentient_metrics
from components.evaluation.transcripts import load_transcripts
from components.files import BadFile, write_json
from components.personas.schema import validate_file
from components.settings import Settings, load_settings


def score(transcripts: Path, base: Path | None, personas: Path | None, out: Path | None, params: Path) -> str:
    """The metrics of a transcript file as text; all of them go to `out` if it is given."""
    settings = load_settings(params)
    metrics = sentient_metrics(
        _read(transcripts),
        None if base is None else _read(base),
        settings.evaluation.bootstrap_samples,
        settings.seed,
        classes={persona.persona_id: str(persona.persona_class) for persona in validate_file(personas)} if personas else None,
        settings_digest=settings.digest(),
    )
    if out:
        write_json(out, metrics)
    return _score_text(metrics)


def compare(a: Path, b: Path, params: Path) -> str:
    """A table of both sides' means and the paired differences b - a, with 95% intervals."""
    settings: Settings = load_settings(params)
    result = paired(_read(a), _read(b), settings.evaluation.bootstrap_samples, settings.seed)
    lines = [f"{result.personas} personas on both sides; b - a, 95% interval", "", "| | a | b | b - a |", "|---|---|---|---|"]
    lines += [f"| {row.quantity} | {row.a:.2f} | {row.b:.2f} | {_difference(row)} |" for row in result.rows]
    lines += [
        f"{count} {what}"
        for count, what in (
            (result.only_a, "personas only in a"),
            (result.only_b, "personas only in b"),
            (result.unscorable_a, "failed dialogues in a"),
            (result.unscorable_b, "failed dialogues in b"),
        )
        if count
    ]
    return "\n".join(lines)


def _read(named: Path) -> list[Dialogue]:
    """The dialogues of a file; a bare variant name means transcripts/<variant>.jsonl."""
    of_variant = Path("transcripts") / f"{named}.jsonl"
    if not named.is_file() and len(named.parts) == 1 and not named.suffix:
        if not of_variant.is_file():
            raise BadFile(f"{named}: neither a transcript file nor a variant with {of_variant}; `rlver converse` writes transcripts")
        return load_transcripts(of_variant)
    return load_transcripts(named)


def _score_text(metrics: dict[str, Any]) -> str:
    low, high = metrics["emotion_ci95"]
    lines = [
        f"final emotion  {metrics['emotion_mean']:.1f}  [{low:.1f}, {high:.1f}]",
        f"success        {metrics['success_rate']:.0%}",
        f"failure        {metrics['failure_rate']:.0%}",
        f"turns          {metrics['turns_mean']:.1f}",
        f"dialogues      {metrics['n']}" + (f", of which {metrics['failed_dialogues']} failed" if metrics["failed_dialogues"] else ""),
    ]
    if pair := metrics.get("paired_to_base"):
        low, high = pair["ci95"]
        lines.append(f"to base        {pair['difference']:+.1f}  [{low:+.1f}, {high:+.1f}]")
    return "\n".join(lines)


def _difference(row: Row) -> str:
    interval = row.difference.ci95
    return f"{row.difference.value:+.2f} [{interval.low:+.2f}, {interval.high:+.2f}]"
