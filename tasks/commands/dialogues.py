"""What `rlver converse`, `appraise`, `verify` and `import` do with files. Nothing is written unless all of it can be."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, TextIO

from rlver.components.domain import looks
from rlver.components.domain.files import BadFile, read_jsonl, write_jsonl
from rlver.components.domain.persona import Persona
from rlver.components.domain.protocols import Rounding
from rlver.components.domain.registry import APPRAISERS, SIMULATORS, SPEAKERS
from rlver.components.domain.transcript import Dialogue, SimulatorTag
from rlver.components.formats.foreign import Recording, read_chats, recording_of
from rlver.components.formats.sage import dialogue_of, has_unjudged_reply
from rlver.components.personas.schema import read_rows, validate_file
from rlver.components.replay.reappraisal import APPRAISER, WITHOUT_PERSONA, goes_on_after_its_end, reappraise
from rlver.components.replay.verification import NotRederivable, first_difference
from rlver.components.rollout.transcripts import load_transcripts, summary
from rlver.components.settings.settings import Settings, load_settings, with_simulator
from rlver.components.users.distilled.folder import fidelity_of, folder_of
from rlver.tasks.runtime.appraisers import appraiser_of, recorded_user

CAUTION = (
    "the scripted user misses most acts in free English: this score must not rank real models or stand beside published ones (docs/act-detector.md); "
    "--variant any-model-llm has a language model as the user"
)
STORED = "answers that a model of this name gave before; give another model or revision a name of its own, or it gets them too"
USER_ANSWERS = Path("answers") / "user.db"
SCRIPTED, LLM, DISTILLED = "scripted", "llm", "distilled"


class Differs(ValueError):
    """A transcript is not what its replies give; the message says where."""


def converse(
    policy: str,
    personas: Path,
    out: Path,
    simulator: str | None,
    difficulty: str | None,
    limit: int | None,
    repeats: int | None,
    variant: str | None,
    params: Path,
    progress: TextIO | None = None,
) -> str:
    """Hold the dialogues of one policy with every persona and write them; one line about the result.

    How far it is goes to the stream `progress`, by default stderr.
    """
    from rlver.tasks.runtime.conversing import as_evaluated, fingerprint, hold_and_write, jobs_of
    from rlver.tasks.runtime.policies import candidate
    from rlver.tasks.runtime.progress import DialogueProgress

    settings = as_evaluated(with_simulator(load_settings(params, variant), simulator, difficulty))
    if not personas.exists():
        raise BadFile(f"{personas}: no such file; `rlver run --only personas` makes the test personas, `rlver personas generate` others")
    people = validate_file(personas)[:limit]
    who = candidate(policy, settings, variant)
    jobs = jobs_of(people, who.name, settings.seed, repeats or settings.evaluation.repeats)
    identity = fingerprint(settings, personas, who.location, who.folder())
    if not Path(policy).is_dir() and any(part.name == SCRIPTED for part in settings.simulator.parts):
        print(f"warning: {CAUTION}", file=sys.stderr)
    with who.open_conversation(settings, min(settings.evaluation.concurrency, len(jobs))) as talk:
        shown = DialogueProgress(len(jobs), progress, costs=talk.costs)
        dialogues = hold_and_write(talk, jobs, out, identity, settings.rollout.max_failure_rate, shown)
        server = talk.policy_connection
        if server is not None and not server.replay and (stored := server.summary()["cache_hits"]):
            print(f"warning: {stored:.0f} replies are {STORED} ({server.answers})", file=sys.stderr)
    return f"{out}: {summary(dialogues)}"


def appraise(
    transcripts: Path, appraiser: str, out: Path, personas: Path | None, difficulty: str | None, params: Path, skip: bool = False
) -> str:
    """Appraise every reply of recorded dialogues anew and write transcripts; one line about what was known and what was not.

    A dialogue that cannot be read is an error, or with `skip` left out and counted.
    """
    settings = with_simulator(load_settings(params), None, difficulty)
    name = appraiser.partition(":")[0]
    if APPRAISERS.has(name) and APPRAISERS.load(name).asks_models:
        raise ValueError(
            f"unknown appraiser {appraiser!r} here: {name} asks models, and recordings are appraised by those who answer at once"
        )
    kind = appraiser_of(appraiser, settings).appraiser
    people = _by_id(personas)

    def read(row: Any, dialogue_id: str) -> tuple[Recording, Dialogue]:
        recording = recording_of(row, dialogue_id)
        original = row.get("original") if name != SCRIPTED and isinstance(row, dict) and isinstance(row.get("original"), dict) else None
        return recording, reappraise(recording, people.get(recording.persona_id), kind, settings.simulator.rules, original)

    both, unread = list[tuple[Recording, Dialogue]](), list[str]()
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
    if name == DISTILLED:
        figures = fidelity_of(folder_of(appraiser))
        remarks.append(
            f"appraiser {figures['digest']}, on held-out dialogues r {figures['free_running_dialogue_r']} per dialogue and"
            f" {figures['free_running_final_r']} of the final emotion"
        )
    return "; ".join([f"{out}: {summary(dialogues)}", *remarks])


def verify(transcripts: Path, personas: Path, variant: str | None, params: Path, appraiser: str | None = None) -> str:
    """Re-derive every dialogue; one line that says from what. Raises Differs at the first difference, with file, line, dialogue, turn,
    expected and found."""

    def people(needed: bool) -> Mapping[str, Persona]:
        return _by_id(personas) if needed or personas.is_file() else {}

    return verified(transcripts, people, load_settings(params, variant), USER_ANSWERS, appraiser)


def verified(
    transcripts: Path,
    people: Callable[[bool], Mapping[str, Persona]],
    settings: Settings,
    stored: Path,
    appraiser: str | None = None,
) -> str:
    """The same, where `people(needed)` gives the personas by id and `stored` is the file of an LLM user's answers."""
    dialogues = load_transcripts(transcripts)
    kinds = {dialogue.simulator.kind for dialogue in dialogues}
    if all(map(_is_of_users, kinds)):
        load_transcripts(transcripts, settings.simulator.rules)
    count = f"{transcripts}: {len(dialogues)} dialogues, {sum(len(dialogue.turns) for dialogue in dialogues)} appraisals"
    if kinds == {LLM} and not stored.is_file():
        return f"{count}: every emotion follows from the recorded changes; whether a model said so, nobody can tell without {stored}"
    known = people(kinds <= {SCRIPTED, LLM})
    appraised_by = appraiser or settings.simulator.appraiser or ""
    with _answered_before(stored) if any(map(_asks_models, kinds)) else nullcontext() as endpoint:

        def named(tag: SimulatorTag, is_appraiser: bool) -> Any:
            return recorded_user(settings, tag, is_appraiser, appraised_by, endpoint)

        rounded = list[list[Rounding]]()
        for (line, _), dialogue in zip(read_jsonl(transcripts), dialogues, strict=True):
            rounded.append([])
            try:
                difference = first_difference(dialogue, known, named, rounded[-1])
            except NotRederivable as error:
                raise NotRederivable(f"{transcripts}:{line}: {error}") from error
            if difference is not None:
                raise Differs(f"{transcripts}:{line}: {difference}")
    answers = f" and the answers in {stored}" if LLM in kinds else ""
    return f"{count}: every emotion follows from its replies{answers}{_within(rounded)}"


def _within(rounded: Sequence[Sequence[Rounding]]) -> str:
    """How many dialogues, of those verified, another machine has rounded otherwise, and by how much at most; nothing where none."""
    every = [one for dialogue in rounded for one in dialogue]
    if not every:
        return ""
    probability, points, change = (max(numbers) for numbers in zip(*every, strict=True))
    return (
        f"; {sum(map(bool, rounded))} dialogues only within rounding ({len(every)} appraisals, by at most {probability:.2f} in a probability, "
        f"{points:.2f} points, {change} of the change; docs/hearing.md)"
    )


def _answered_before(stored: Path) -> AbstractContextManager[Any]:
    """The endpoint that says what the models once answered and asks nobody."""
    from rlver.components.endpoint.opening import EndpointRun, stored_answers

    return stored_answers(stored, EndpointRun("verify"))


def _is_of_users(kind: str) -> bool:
    """Whether a tag of this kind is of dialogues that were held with a simulated user, and so ended where its rules say."""
    names = kind.split("+")
    return SIMULATORS.has(kind) or (len(names) == 2 and APPRAISERS.has(names[0]) and SPEAKERS.has(names[1]))


def _asks_models(kind: str) -> bool:
    """Of a kind nobody knows here, no: it cannot be derived again anyway."""
    names = kind.removesuffix(WITHOUT_PERSONA).removesuffix(APPRAISER).split("+")  # its appraiser and its speaker, or itself
    return any(registry.load(name).asks_models for name in names for registry in (SIMULATORS, APPRAISERS, SPEAKERS) if registry.has(name))


def import_sage(source: Path, out: Path, policy: str | None) -> str:
    """Bring recorded SAGE dialogues (JSONL, also gzipped) into this project's transcripts; one line about the result."""
    name = policy or _stem(source)
    rows, problems = read_rows(source)
    if problems:
        raise BadFile(f"{source}:{problems[0].line}: {problems[0].reason}")
    dialogues, unjudged = list[Dialogue](), 0
    for row in rows:
        try:
            dialogues.append(dialogue_of(row.values, name))
            unjudged += has_unjudged_reply(row.values)
        except ValueError as error:
            raise BadFile(f"{source}:{row.line}: {error}") from error
    _refuse_repeated_ids(source, dialogues)
    write_jsonl(out, [dialogue.model_dump(mode="json") for dialogue in dialogues])
    remark = f"; {unjudged} last replies that were never judged are left out" if unjudged else ""
    return f"{out}: {summary(dialogues)}{remark}"


def _by_id(personas: Path | None) -> Mapping[str, Persona]:
    return {} if personas is None else {persona.persona_id: persona for persona in validate_file(personas)}


def _refuse_repeated_ids(path: Path, dialogues: list[Dialogue]) -> None:
    seen: set[str] = set()
    for dialogue in dialogues:
        if dialogue.dialogue_id in seen:
            raise BadFile(f"{path}: dialogue_id {dialogue.dialogue_id} appears more than once; each dialogue needs its own")
        seen.add(dialogue.dialogue_id)


def _stem(path: Path) -> str:
    """The file's name without .jsonl and .gz; a dot inside the name stays."""
    return path.name.removesuffix(".gz").removesuffix(".jsonl") or path.name
