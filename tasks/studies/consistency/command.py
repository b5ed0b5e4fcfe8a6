"""What `rlver consistency` does: recorded replies appraised again and again, and how far the answers differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rlver.components.domain.files import write_json
from rlver.components.domain.persona import Persona
from rlver.components.domain.transcript import Dialogue
from rlver.components.personas.schema import validate_file
from rlver.components.replay.opinions import Appraiser
from rlver.components.rollout.transcripts import load_transcripts
from rlver.components.scoring.statistics import Estimated
from rlver.components.settings.settings import load_settings
from rlver.tasks.runtime.appraisers import appraiser_of
from rlver.tasks.runtime.progress import counted
from rlver.tasks.studies.consistency.consistency import Asking, Consistency, ask_again, consistency


def examine(
    transcripts: Path, appraiser: str, times: int, personas: Path, limit: int | None, out: Path | None, variant: str | None, params: Path
) -> str:
    """The table of one appraiser, and what its calls have cost; all figures go to `out` if it is given."""
    settings = load_settings(params, variant)
    pairs = list(_with_personas(load_transcripts(transcripts)[:limit], personas))
    asked = appraiser_of(appraiser, settings)

    async def all_askings(one: Appraiser) -> list[Asking]:
        return [asking for dialogue, persona in counted(pairs, "dialogues") for asking in await ask_again(one, dialogue, persona, times)]

    rows = consistency(asked.run(all_askings), settings.evaluation.bootstrap_samples, settings.seed)
    name = asked.appraiser.name
    if out:
        write_json(out, {"appraiser": name, "times": times, "dialogues": len(pairs), "probes": [_as_json(row) for row in rows]})
    lines = [f"{name}: {len(pairs)} dialogues, every reply asked about {times} times, 95% intervals", "", *_table(rows)]
    return "\n".join([*lines, *([f"\n{asked.connection.line()}"] if asked.connection else [])])


def _with_personas(dialogues: Sequence[Dialogue], personas: Path) -> Iterator[tuple[Dialogue, Persona]]:
    known = {persona.persona_id: persona for persona in validate_file(personas)}
    for dialogue in dialogues:
        if dialogue.persona_id not in known:
            raise ValueError(
                f"dialogue {dialogue.dialogue_id}: persona {dialogue.persona_id} is not in {personas}; name its file (--personas)"
            )
        yield dialogue, known[dialogue.persona_id]


def _table(rows: Sequence[Consistency]) -> Iterator[str]:
    yield "| probe | replies | answers (none) | variance | absolute difference | same direction | identical |"
    yield "|---" * 7 + "|"
    for row in rows:
        shares = " | ".join(f"{one.value:.1%} [{one.ci95.low:.1%}, {one.ci95.high:.1%}]" for one in (row.same_direction, row.identical))
        points = " | ".join(f"{one.value:.2f} [{one.ci95.low:.2f}, {one.ci95.high:.2f}]" for one in (row.variance, row.mean_difference))
        yield f"| {row.probe}{', exactly the same' if row.is_exact else ''} | {row.replies} | {row.answers} ({row.unanswered}) | {points} | {shares} |"


def _as_json(row: Consistency) -> dict[str, Any]:
    def estimated(one: Estimated) -> dict[str, Any]:
        return {"value": round(one.value, 6), "ci95": [round(end, 6) for end in one.ci95]}

    return {
        "probe": row.probe,
        "replies": row.replies,
        "answers": row.answers,
        "unanswered": row.unanswered,
        "exact": row.is_exact,
        "variance": estimated(row.variance),
        "mean_difference": estimated(row.mean_difference),
        "same_direction": estimated(row.same_direction),
        "identical": estimated(row.identical),
    }
