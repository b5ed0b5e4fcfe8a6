"""What `rlver blind` does: hold the page open over two transcripts, two models or both, and report what people answered.

Holding the page open until Ctrl-C: the models of a talk, and the server in front of them.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path
from socket import socket
from typing import TYPE_CHECKING, get_args

import h11
import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

from rlver.components.domain.files import BadFile, write_json, write_text_atomically
from rlver.components.domain.transcript import Dialogue
from rlver.components.rollout.transcripts import load_transcripts
from rlver.components.settings.settings import Settings, load_settings
from rlver.tasks.runtime import environment
from rlver.tasks.runtime.appraisers import read_transcripts
from rlver.tasks.runtime.assembly import Conversation
from rlver.tasks.runtime.policies import PolicyCandidate
from rlver.tasks.studies.blind.answers import read_answers
from rlver.tasks.studies.blind.guard import PATIENCE_S, PageGuard, hosts_of
from rlver.tasks.studies.blind.pairs import Side, pairs_of
from rlver.tasks.studies.blind.report import HumanReport, human_report, judged
from rlver.tasks.studies.blind.wording import markdown
from rlver.tasks.tracking import records

if TYPE_CHECKING:
    from rlver.components.domain.persona import Persona
    from rlver.tasks.runtime.policies import PolicyCandidate

ANSWERS = Path("blind")
TEST_PERSONAS = Path("data/personas/test.jsonl")

Say = Callable[[str], None]


def hold_open(
    transcripts: tuple[Path, Path] | None,
    policies: tuple[str, str] | None,
    variants: tuple[str, str] | None,
    answers: Path | None,
    raters: Sequence[str] | None,
    personas: Path | None,
    host: str,
    port: int,
    params: Path,
    say: Say,
) -> None:
    """Serve the page until Ctrl-C: pairs of `transcripts`, talks with `policies`, each with the overlay of its variant."""
    from rlver.tasks.runtime.servers import free_port
    from rlver.tasks.studies.blind.answer_file import AnswerFile
    from rlver.tasks.studies.blind.comparing import Comparing, study_of
    from rlver.tasks.studies.blind.page import Page
    from rlver.tasks.studies.blind.talking import Talking, TalkSpeaker

    check_host(host)
    settings = load_settings(params)
    compared = None if transcripts is None else [(str(file), read_transcripts(file)) for file in transcripts]
    candidates = _candidates(policies, variants, params)
    names = transcripts or policies
    assert names is not None
    answers = answers or ANSWERS / f"{_stem(names[0])}-vs-{_stem(names[1])}.jsonl"
    with ExitStack() as stack:
        file = stack.enter_context(AnswerFile(answers, say))
        comparing = talking = None
        if compared is not None:
            (name_a, a), (name_b, b) = compared
            pairing = pairs_of(a, b)
            blind = settings.blind
            study = study_of(_told_apart(name_a, a, name_b, b), pairing.pairs, settings.seed, blind.pairs, blind.overlap)
            file.begin(study)
            comparing = Comparing(pairing.pairs, study, file, now)
            left_out = f"; {pairing.left_out} dialogues have no partner or failed" if pairing.left_out else ""
            say(f"{len(pairing.pairs)} pairs, {min(len(pairing.pairs), blind.pairs)} for each person{left_out}")
        if candidates:
            say("loading the models of the talks …")
        talks = stack.enter_context(open_conversations(candidates))
        if policies is not None:
            speakers: dict[Side, TalkSpeaker] = {
                "a": TalkSpeaker(policies[0], talks["a"].policy),
                "b": TalkSpeaker(policies[1], talks["b"].policy),
            }
            talking = Talking(speakers, file, now, settings.seed, OPEN_TALKS, say)
        page = Page(comparing, talking, raters, _cards(personas) if candidates else ())
        say(f"answers are saved in {answers}, with the names that people give")
        serve(page.app(while_open(talks)), host, free_port(port), say)


def report(answers: Path, transcripts: Sequence[Path], out: Path | None, track: bool, params: Path, warn: Say) -> str:
    """Write the report beside the answers (or at `out`, without its ending) as Markdown and JSON; the Markdown, and where it is.

    A tracker that cannot be reached is a warning: the files are the record.
    """
    settings = load_settings(params)
    found = read_answers(answers)
    if found.cut_off_bytes:
        warn(
            f"{answers}: the last line was cut off while it was written ({found.cut_off_bytes} bytes); it was never confirmed and is left out"
        )
    emotions = {d.dialogue_id: d.emotion_final for file in transcripts for d in load_transcripts(file)} if transcripts else None
    try:
        made = human_report(judged(found.rows), settings.evaluation.bootstrap_samples, settings.seed, emotions)
    except ValueError as error:
        raise BadFile(f"{answers}: {error}") from error
    stem = out or answers.with_name(answers.name.removesuffix(".jsonl") + ".report")
    text, page, numbers = markdown(made), stem.with_name(f"{stem.name}.md"), stem.with_name(f"{stem.name}.json")
    write_text_atomically(page, text)
    write_json(numbers, made.as_json())
    where = _track(answers, made, (page, numbers), settings, warn) if track else ""
    return f"{text}\n{page}, {numbers}{where}"


def _track(answers: Path, made: HumanReport, artifacts: Sequence[Path], settings: Settings, warn: Say) -> str:
    """The end of a sentence that names the run."""
    from rlver.tasks.runtime.environment import NoProject
    from rlver.tasks.tracking import TrackingUnavailable, log_report

    try:
        root = environment.project_root()
        uri = environment.prepare(root).tracking_uri
        digest = hashlib.sha256(b"".join(path.read_bytes() for path in artifacts)).hexdigest()
        told = {"answers": str(answers), "seed": str(settings.seed), "bootstrap_samples": str(settings.evaluation.bootstrap_samples)}
        if made.compared:
            told |= {"a": made.compared.a, "b": made.compared.b, "simulator": made.compared.simulator}
        metrics = {name: value for name, value in records.flat_numbers(made.as_json()).items() if not name.startswith("revised")}
        run = log_report(root, uri, "blind", digest, told, metrics, artifacts)
    except (NoProject, TrackingUnavailable) as error:
        warn(f"not in MLflow: {error}; the files are complete, and running this again logs them")
        return ""
    return f"; MLflow run {run}"


def _candidates(
    policies: tuple[str, str] | None, variants: tuple[str, str] | None, params: Path
) -> dict[Side, tuple[PolicyCandidate, Settings]]:
    """Who is talked with, found in order before anything is loaded: decoding as in the benchmark, each with its own overlay.

    Folders speak in this process, because a server for rollouts has one model's weights.
    """
    if policies is None:
        return {}
    from rlver.components.settings.settings import with_simulator
    from rlver.tasks.runtime.conversing import as_evaluated
    from rlver.tasks.runtime.policies import candidate

    found: dict[Side, tuple[PolicyCandidate, Settings]] = {}
    for side, policy, variant in zip(get_args(Side), policies, variants or (None, None), strict=True):
        settings = as_evaluated(with_simulator(load_settings(params, variant), "scripted", None))  # nobody asks a simulated user
        settings = settings.model_copy(update={"rollout": settings.rollout.model_copy(update={"sampler": "transformers"})})
        found[side] = (candidate(policy, settings), settings)
    return found


def _cards(personas: Path | None) -> list[str]:
    """How it began for each persona, and what they say first: no need is named. None where there is no file."""
    from rlver.components.personas.schema import validate_file

    file = personas or (TEST_PERSONAS if TEST_PERSONAS.is_file() else None)
    return [] if file is None else [_card(one) for one in validate_file(file)]


def _card(persona: Persona) -> str:
    beginning = persona.background.partition("\n\n")[0]
    return f"{beginning}\n\nYou could begin: {persona.first_line}" if persona.first_line else beginning


def _told_apart(name_a: str, a: Sequence[Dialogue], name_b: str, b: Sequence[Dialogue]) -> tuple[str, str]:
    """The policies' names, or the files' where those are not one and another."""
    policies = [sorted({dialogue.policy for dialogue in side}) for side in (a, b)]
    if all(len(names) == 1 for names in policies) and policies[0] != policies[1]:
        return policies[0][0], policies[1][0]
    return name_a, name_b


def _stem(name: Path | str) -> str:
    """What a file of answers calls a transcript or a policy."""
    last = str(name).rstrip("/").rpartition("/")[2] or str(name)
    return "".join(letter if letter.isalnum() or letter in "._-" else "-" for letter in last.removesuffix(".jsonl"))


PORT = 7500
MOST_CONNECTIONS = 100  # at once, with as many again that wait to be let in: far below the files that a process may open
OPEN_TALKS = 16  # at once; each holds memory of a model in this process


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


@contextmanager
def open_conversations(candidates: Mapping[Side, tuple[PolicyCandidate, Settings]]) -> Iterator[Mapping[Side, Conversation]]:
    """The models, loaded or connected. Raises ValueError in one line."""
    with ExitStack() as stack:
        yield {side: stack.enter_context(who.open_conversation(settings, OPEN_TALKS)) for side, (who, settings) in candidates.items()}


def while_open(talks: Mapping[Side, Conversation]) -> Callable[[Starlette], AbstractAsyncContextManager[None]]:
    """Policies started and connected as long as the server's event loop lasts."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for talk in talks.values():
                talk.policy.start()
                if talk.policy_connection is not None:
                    await stack.enter_async_context(talk.policy_connection)
                stack.push_async_callback(talk.policy.close)
            yield

    return lifespan


def serve(app: Starlette, host: str, port: int, say: Callable[[str], None]) -> None:
    """Answer until Ctrl-C. On another address than loopback the page asks for a key, which stands in the address that is said."""
    key = None if ip_address(host).is_loopback else secrets.token_urlsafe(16)
    shown = f"[{host}]" if ":" in host else host
    told = [f"open {f'http://{shown}:{port}/' + (f'?key={key}' if key else '')}    Ctrl-C ends it; what was answered is saved"]
    if key:
        told.append("everybody in this network who has that address can read the dialogues and answer; what they send is not encrypted")
    _Announced(config_of(PageGuard(app, hosts_of(host, port), key), host, port), lambda: say("\n".join(told))).run()


def config_of(guarded: PageGuard, host: str, port: int) -> uvicorn.Config:
    """How it is served: one process, which believes no proxy and waits for nobody."""
    return uvicorn.Config(
        guarded,
        host=host,
        port=port,
        http=_Impatient,
        ws="none",
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=MOST_CONNECTIONS,
        timeout_graceful_shutdown=2,
    )


class _Impatient(H11Protocol):
    """Hangs up on a client that does not say whole what it wants, or does not read what it is told: each holds one of few connections.

    Where there are too many, the one that has been waited for longest goes at once, so that the next person is always let in.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._since_s = self.loop.time()
        self._next_look = self.loop.call_later(PATIENCE_S, self._look_again, self.cycle)
        here = [one for one in self.connections if isinstance(one, _Impatient) and not one.transport.is_closing()]
        if len(here) > MOST_CONNECTIONS:
            min(here, key=lambda one: (one._is_ours_to_move(), one._since_s)).transport.abort()

    def _is_ours_to_move(self) -> bool:
        return self.cycle is not None and not self.cycle.response_started and not self.flow.write_paused

    def _look_again(self, last: object) -> None:
        """`last`: what was being answered when it was looked before."""
        if self.cycle is last and not self._is_ours_to_move():
            self.transport.abort()
        else:
            self._next_look = self.loop.call_later(PATIENCE_S, self._look_again, self.cycle)

    def send_400_response(self, msg: str) -> None:
        """To a body that breaks HTTP too: uvicorn would let the page answer as well, and fail at that."""
        if self.cycle is not None:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._next_look.cancel()
        super().connection_lost(exc)


class _Announced(uvicorn.Server):
    """Says where it is once it listens."""

    def __init__(self, config: uvicorn.Config, announce: Callable[[], None]) -> None:
        super().__init__(config)
        self._announce = announce

    async def startup(self, sockets: list[socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._announce()


def check_host(host: str) -> None:
    """Raises ValueError for what a browser could not be told to open."""
    try:
        address = ip_address(host)
    except ValueError as error:
        raise ValueError(f"--host takes the number of an address of this machine, as 127.0.0.1, got {host!r}") from error
    if address.is_unspecified:
        raise ValueError(f"--host {host} is every address at once: name the one that the others will open")
