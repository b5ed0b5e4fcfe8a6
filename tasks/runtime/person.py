"""A person at a terminal: talks to a policy, or is the supporter of a simulated user and watches what every reply does.

Lines come from standard input, a terminal or a pipe; the end of the input ends the talk.
"""

from __future__ import annotations

import io
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from rlver.components.domain.emotion import EmotionRules, apply_change, tier
from rlver.components.domain.files import BadFile
from rlver.components.domain.persona import Persona
from rlver.components.domain.printable import printable, whole_characters
from rlver.components.domain.protocols import ContextFull, Simulator, SimulatorUnavailable, UserSession, Utterance
from rlver.components.domain.thinking import Said
from rlver.components.domain.transcript import Appraisal
from rlver.components.rollout.episode import Job, run_episode
from rlver.components.settings.settings import Settings
from rlver.tasks.runtime.options import TEST_PERSONAS
from rlver.tasks.runtime.text_policy import TextPolicy, plain

if TYPE_CHECKING:
    from rlver.tasks.runtime.assembly import Conversation
    from rlver.tasks.runtime.connections import Connection

LEAVE = ("/quit", "/exit", "/bye")
_BAR = 20


class Terminal:
    """Asks for lines and shows them; a line from a pipe is echoed, so that the output can be read as a dialogue."""

    def __init__(self, source: TextIO, target: TextIO) -> None:
        self.source, self.target = source, target

    def show(self, line: str = "") -> None:
        self.target.write(printable(line) + "\n")
        self.target.flush()

    def ask(self, who: str) -> str | None:
        """The next line that says something; None at the end of the input or when the person wants to leave."""
        interactive = self.source.isatty()
        while True:
            if interactive:
                self.target.write(f"{who}> ")
                self.target.flush()
            with _interrupted_at_once():
                line = whole_characters(self.source.readline())
            if not line or line.strip().lower() in LEAVE:
                self.show()
                return None
            if line.strip():
                if not interactive:
                    self.show(f"{who}> {line.strip()}")
                return line.strip()


@contextmanager
def _interrupted_at_once() -> Iterator[None]:
    """While a person is waited for, Ctrl-C ends that: an event loop would only note it, and wait on."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def standard_terminal() -> Terminal:
    """Bytes that are no text, from a pipe or a terminal of another encoding, become replacement characters and end nothing."""
    for stream in (sys.stdin, sys.stdout):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    return Terminal(sys.stdin, sys.stdout)


async def support(
    persona: Persona, seed: int, simulator: Simulator, rules: EmotionRules, terminal: Terminal, connection: Connection | None = None
) -> int:
    """The person at the terminal replies, the simulated user feels; returns the last emotion. The need is told at the end."""
    traits = ", ".join(persona.traits)
    terminal.show(f"{persona.name or persona.persona_id} ({persona.persona_class}: {traits}) writes to you. {LEAVE[0]} ends the talk.")
    terminal.show(f"   {bar(rules.start)}")
    user = _Shown(simulator.session(persona, seed), rules.start, terminal)
    try:
        async with connection or nullcontext():
            dialogue = (await run_episode(Job("chat", persona, seed), user, simulator.tag, _typed(terminal), rules)).dialogue
    except _Left:
        ended = "you left"
    else:
        if dialogue.error:
            raise SimulatorUnavailable(dialogue.error.removeprefix(f"{SimulatorUnavailable.__name__}: "))
        ended = str(dialogue.stop_reason)
    terminal.show(f"{ended} after {user.turns} turns, final emotion {user.emotion}.")
    terminal.show(f"The hidden need was {persona.hidden_need}: {persona.need_text}")
    return user.emotion


class _Left(Exception):
    """The person at the terminal has had enough."""


@dataclass
class _Shown:
    """A user's session that shows what is said and felt, as it happens."""

    session: UserSession
    emotion: int
    terminal: Terminal
    turns: int = 0

    async def open(self) -> Utterance:
        return self._said(await self.session.open())

    async def appraise(self, reply: str) -> Appraisal:
        appraisal = await self.session.appraise(reply)
        self.emotion, self.turns = apply_change(self.emotion, appraisal.change), self.turns + 1
        for line in [*reasons(appraisal), bar(self.emotion)]:
            self.terminal.show(f"   {line}")
        return appraisal

    async def speak(self, emotion: int) -> Utterance:
        return self._said(await self.session.speak(emotion))

    def _said(self, utterance: Utterance) -> Utterance:
        self.terminal.show(f"user> {utterance.text}")
        return utterance


def _typed(terminal: Terminal) -> TextPolicy:
    """The person at the terminal as a policy."""

    def answer(user: str) -> Said:
        said = terminal.ask("you ")
        if said is None:
            raise _Left
        return plain(said)

    return TextPolicy("you", lambda dialogue_id, seed, language: answer)


def reasons(appraisal: Appraisal) -> list[str]:
    """The change, what went through the user's mind, and the evidence with its points."""
    lines = [f"{appraisal.change:+d}, {appraisal.feeling}: {appraisal.activity}", f"{appraisal.content} {appraisal.target}"]
    counted = [item for item in appraisal.evidence if item.points]
    lines += [f"{item.points:+3g} {item.what}" + (f" ({item.span!r})" if item.span else "") for item in counted]
    return lines


def bar(emotion: int) -> str:
    filled = _BAR * emotion // 100
    return f"emotion {emotion:3d} {'█' * filled}{'░' * (_BAR - filled)} {tier(emotion)}"


async def talk(conversation: Conversation, who: str, seed: int, language: str, terminal: Terminal) -> None:
    async with conversation.policy_connection or nullcontext():
        try:
            session = conversation.policy.session("chat", seed, language)
            terminal.show(f"You talk to {who}. {LEAVE[0]} ends the talk.")
            while (line := terminal.ask("you ")) is not None:
                said = (await session.reply(line)).said
                if said.think:
                    terminal.show(f"     ({said.think})")
                terminal.show(f"it > {said.reply or '…'}")
        except ContextFull as error:
            raise ContextFull(f"the talk has become too long for the model ({error}); start a new one") from error
        finally:
            await conversation.policy.close()


def newest_policy(models: Path) -> Path:
    """The model that was written last, a trained one before the base. Raises BadFile when there is none."""
    found = [config.parent for config in models.glob("[!.]*/config.json")]  # with a dot: one that is being written, or was left so
    if not found:
        raise BadFile(f"{models}: no model yet; `rlver run` makes one, or name one with --policy")
    return max(found, key=lambda folder: (folder.name != "base", (folder / "config.json").stat().st_mtime))


def someone(wanted: str | None, file: Path | None, settings: Settings) -> Persona:
    """The persona with the wanted id, or the first; composed from the library where no file is there."""
    from rlver.tasks.runtime.people import personas_from

    personas, where = personas_from(file, TEST_PERSONAS, settings, 1)
    chosen = [persona for persona in personas if wanted in (None, persona.persona_id)]
    if not chosen:
        raise ValueError(f"there is no persona {wanted} in {where}; the first one is {personas[0].persona_id}")
    return chosen[0]
