"""`rlver converse`, `appraise`, `import`: dialogues between policies and users, and recorded ones. Nothing is written unless all of it can be.

Each command imports what it needs when it is called, so that --help answers at once.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from rlver.tasks.runtime import options
from rlver.tasks.runtime.options import PARAMS, TEST_PERSONAS, Difficulty, Personas, Variant
from rlver.tasks.runtime.options import ParamsAndOverlays as Params

if TYPE_CHECKING:
    from rlver.components.domain.transcript import Dialogue
    from rlver.components.formats.foreign import Recording

Out = Annotated[Path, options.out("The transcript file to write (JSONL).", options.FILE_OR_STREAM)]
CAUTION = (
    "the scripted user misses most acts in free English: this score must not rank real models or stand beside published ones (docs/act-detector.md); "
    "--variant any-model-llm has a language model as the user"
)


def register(app: typer.Typer) -> None:
    for command in (converse, appraise):
        app.command()(command)
    app.command("import")(import_)


def converse(
    policy: Annotated[
        str, typer.Option("--policy", help="A model folder, hf:NAME, or behind a chat endpoint openai:MODEL or vllm:URL (evaluation only).")
    ],
    out: Annotated[Path, options.out("The transcript file to write (JSONL); unfinished work lies beside it.")],
    personas: Personas = TEST_PERSONAS,
    simulator: Annotated[
        str | None, typer.Option("--simulator", help="Who plays the users: scripted, llm, or another kind by its name.")
    ] = None,
    difficulty: Difficulty = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Talk only with the first N personas.")] = None,
    repeats: Annotated[int | None, typer.Option(min=1, help="Dialogues with each persona (default: evaluation.repeats).")] = None,
    variant: Variant = None,
    budget: options.Budget = None,
    replay: options.Replay = False,
    params: Params = PARAMS,
) -> str:
    """Let a policy talk with simulated users, and write what was said and felt; after Ctrl-C, run it again to go on."""
    from rlver.components.domain.files import BadFile
    from rlver.components.personas.schema import validate_file
    from rlver.components.rollout.transcripts import summary
    from rlver.components.settings.settings import load_settings, with_simulator
    from rlver.tasks.runtime.connections import warn_of_stored
    from rlver.tasks.runtime.conversing import as_evaluated, fingerprint, hold_and_write, jobs_of
    from rlver.tasks.runtime.policies import candidate
    from rlver.tasks.runtime.progress import DialogueProgress

    options.limit_endpoints(budget, replay)
    settings = as_evaluated(with_simulator(load_settings(params, variant), simulator, difficulty))
    if not personas.exists():
        raise BadFile(f"{personas}: no such file; `rlver run --only personas` makes the test personas, `rlver personas generate` others")
    people = validate_file(personas)[:limit]
    who = candidate(policy, settings, variant)
    jobs = jobs_of(people, who.name, settings.seed, repeats or settings.evaluation.repeats)
    identity = fingerprint(settings, personas, who.location, who.folder())
    if not Path(policy).is_dir() and any(part.name == "scripted" for part in settings.simulator.parts):
        print(f"warning: {CAUTION}", file=sys.stderr)
    with who.open_conversation(settings, min(settings.evaluation.concurrency, len(jobs))) as talk:
        shown = DialogueProgress(len(jobs), costs=talk.costs)
        dialogues = hold_and_write(talk, jobs, out, identity, settings.rollout.max_failure_rate, shown)
        warn_of_stored(talk.policy_connection)
    return f"{out}: {summary(dialogues)}"


def appraise(
    transcripts: Annotated[Path, typer.Argument(help="Dialogues, also foreign ones: chats of any usual shape, need and persona unknown.")],
    out: Out,
    appraiser: Annotated[
        str,
        typer.Option("--appraiser", metavar="KIND", help="Who appraises: scripted, distilled:FOLDER (learned), or another by its name."),
    ] = "scripted",
    personas: Annotated[Path | None, typer.Option("--personas", help="The personas file, if there is one.")] = None,
    difficulty: Difficulty = None,
    skip: Annotated[bool, typer.Option("--skip", help="Leave out dialogues that cannot be read or are not in English.")] = False,
    params: Params = PARAMS,
) -> str:
    """Appraise every reply of recorded dialogues anew, and fill in emotions and reasons."""
    from rlver.components.domain import looks
    from rlver.components.domain.files import BadFile, write_jsonl
    from rlver.components.domain.registry import APPRAISERS
    from rlver.components.formats.foreign import read_chats, recording_of
    from rlver.components.personas.schema import validate_file
    from rlver.components.replay.reappraisal import goes_on_after_its_end, reappraise
    from rlver.components.rollout.transcripts import summary
    from rlver.components.settings.settings import load_settings, with_simulator
    from rlver.tasks.runtime.appraisers import appraiser_of, known

    settings = with_simulator(load_settings(params), None, difficulty)
    name = appraiser.partition(":")[0]
    if not APPRAISERS.has(name) or APPRAISERS.load(name).asks_models:
        raise ValueError(f"unknown appraiser {appraiser!r} here, where no model behind an endpoint is asked: choose {known(at_once=True)}")
    kind = appraiser_of(appraiser, settings).appraiser
    agreement = [_agreement(appraiser)] if name == "distilled" else []
    people = {} if personas is None else {persona.persona_id: persona for persona in validate_file(personas)}

    def read(row: Any, dialogue_id: str) -> tuple[Recording, Dialogue]:
        recording = recording_of(row, dialogue_id)
        original = row.get("original") if name != "scripted" and isinstance(row, dict) and isinstance(row.get("original"), dict) else None
        return recording, reappraise(recording, people.get(recording.persona_id), kind, settings.simulator.rules, original)

    both, unread = list[tuple["Recording", "Dialogue"]](), list[str]()
    for number, chat in read_chats(transcripts):
        try:
            both.append(read(chat, f"{_stem(transcripts)}/{number}"))
        except ValueError as error:
            unread.append(f"{transcripts}:{number}: {error}")
    if unread and (not skip or not both):
        more = f" (and {len(unread) - 1} more; --skip leaves them out)" if both and len(unread) > 1 else ""
        raise BadFile(f"{unread[0]}{more}")
    dialogues = [dialogue for _, dialogue in both]
    looks.tell_of(dialogues)
    _refuse_repeated_ids(transcripts, dialogues)
    write_jsonl(out, [dialogue.model_dump(mode="json") for dialogue in dialogues])
    remarks = [
        f"{count} {what}"
        for count, what in (
            (sum(dialogue.persona_id not in people for dialogue in dialogues), "without a known persona"),
            (sum(dialogue.hidden_need is None for dialogue in dialogues), "without a known need"),
            (sum(goes_on_after_its_end(dialogue, settings.simulator.rules) for dialogue in dialogues), "that would have ended earlier"),
            (len(unread), f"unreadable ones left out, the first: {''.join(unread[:1])}"),
            (sum(recording.left_out for recording, _ in both), "last messages without a reply left out"),
        )
        if count
    ]
    return "; ".join([f"{out}: {summary(dialogues)}", *remarks, *agreement])


def _agreement(appraiser: str) -> str:
    from rlver.components.users.distilled.folder import fidelity_of, folder_of

    figures = fidelity_of(folder_of(appraiser))
    return (
        f"appraiser {figures['digest']}, on held-out dialogues r {figures['free_running_dialogue_r']} per dialogue and"
        f" {figures['free_running_final_r']} of the final emotion"
    )


def import_(
    kind: Annotated[Literal["sage"], typer.Argument(help="Where the file comes from.")],
    file: Annotated[Path, typer.Argument(help="sage: recorded dialogues of the SAGE paper (JSONL, also .gz).")],
    out: Out,
    policy: Annotated[str | None, typer.Option("--policy", help="Who replied (default: the file's name).")] = None,
) -> str:
    """Bring dialogues of another project into this project's format; nothing is written when any row is bad."""
    from rlver.components.domain.files import BadFile, write_jsonl
    from rlver.components.formats.sage import dialogue_of, has_unjudged_reply
    from rlver.components.personas.schema import read_rows
    from rlver.components.rollout.transcripts import summary

    rows, problems = read_rows(file)
    if problems:
        raise BadFile(f"{file}:{problems[0].line}: {problems[0].reason}")
    dialogues, unjudged = list["Dialogue"](), 0
    for row in rows:
        try:
            dialogues.append(dialogue_of(row.values, policy or _stem(file)))
            unjudged += has_unjudged_reply(row.values)
        except ValueError as error:
            raise BadFile(f"{file}:{row.line}: {error}") from error
    _refuse_repeated_ids(file, dialogues)
    write_jsonl(out, [dialogue.model_dump(mode="json") for dialogue in dialogues])
    remark = f"; {unjudged} last replies that were never judged are left out" if unjudged else ""
    return f"{out}: {summary(dialogues)}{remark}"


def _refuse_repeated_ids(path: Path, dialogues: Sequence[Dialogue]) -> None:
    from rlver.components.domain.files import BadFile

    seen: set[str] = set()
    for dialogue in dialogues:
        if dialogue.dialogue_id in seen:
            raise BadFile(f"{path}: dialogue_id {dialogue.dialogue_id} appears more than once; each dialogue needs its own")
        seen.add(dialogue.dialogue_id)


def _stem(path: Path) -> str:
    """The file's name without .jsonl and .gz; a dot inside the name stays."""
    return path.name.removesuffix(".gz").removesuffix(".jsonl") or path.name
