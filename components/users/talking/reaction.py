"""What the user makes of a reply before it goes on: the first words, an objection to advice it knows, an answer to a question of fact.

It reads the appraisal's evidence, not the reply: what was heard, how sure that is and which words carry it. So the user reacts to what the appraiser
heard, whichever appraiser that is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from rlver.components.domain.persona import Story
from rlver.components.domain.transcript import Appraisal, Evidence
from rlver.components.users.scripted.reading import content_of
from rlver.components.users.talking.wordings import Draws, content_word, wordings

ADVICE, QUESTION = "advise", "ask_fact"
NO_REPLY = frozenset({"nothing", "meta", "gibberish", "wall_of_text", "echo"})  # what is not something one person says to another
SAME_ADVICE = 0.5  # share of the content words of the shorter advice that makes two the same
TRIED = 2  # content words that advice shares with something the story says was tried
_SENTENCE = re.compile(r"[^.!?\n]+[.!?]*")


@dataclass(frozen=True)
class Reaction:
    """`first` and `after` are said before and after the next piece of the story; that is `line`, where a line of the story answers."""

    first: str
    line: int | None = None
    after: str | None = None


@dataclass
class Reacting:
    """One user's reactions in one dialogue; remembers the advice it was given."""

    story: Story
    draws: Draws
    _advice: list[frozenset[str]] = field(default_factory=list)

    def to(self, reply: str, appraisal: Appraisal, told: Sequence[int], turn: int) -> Reaction:
        """`told` are the numbers of the story lines that were told, `turn` that of the message to come."""
        heard = {one.what: one for one in appraisal.evidence if one.step == "content"}
        objection = self._objection(reply, heard[ADVICE], appraisal.change, told, turn) if ADVICE in heard else None
        if objection is not None:
            return objection
        top = max(heard.values(), key=_sure, default=None)
        if QUESTION in heard:
            return self._answer(reply, heard[QUESTION], top, appraisal.change, told, turn)
        return Reaction(self._first(top, appraisal.change, turn))

    def _first(self, top: Evidence | None, change: int, turn: int) -> str:
        """To the act of highest probability; in general words where none was heard, none fits or nothing moved."""
        word = None if top is None else content_word(top.span, self.draws.random(f"word:{turn}"))
        sign = "welcome" if change > 0 else "unwelcome"
        if top is None or change == 0:
            options = wordings()["general"][sign if change else "unmoved"]
        else:
            by_sign = wordings()["reactions"].get("nothing" if top.what in NO_REPLY else top.what, {})
            options = by_sign.get(sign) or wordings()["general"][sign]
        if self.draws.persona.style == "terse":
            options = sorted(options, key=len)[: (len(options) + 1) // 2]
        return self.draws.words(options, "reaction", word)

    def _objection(self, reply: str, advice: Evidence, change: int, told: Sequence[int], turn: int) -> Reaction | None:
        """To advice it was given before, or that the story says was tried; the line that tells of the trial comes along, if it is untold."""
        sentence = sentence_of(reply, advice.span)
        said, random = content_of(sentence), self.draws.random(f"word:{turn}")
        before = [said & one for one in self._advice if said & one and len(said & one) >= SAME_ADVICE * min(len(said), len(one))]
        self._advice.append(said)
        phrases = wordings()["objections"]
        if before:
            return Reaction(self.draws.words(phrases["given"], "given", content_word(sentence, random, among=before[-1])))
        tried = max(self.story.attempts, key=lambda attempt: len(said & content_of(attempt)), default="")
        shared = said & content_of(tried)
        if len(shared) < TRIED:
            return None
        options = phrases["tried"]["welcome" if change > 0 else "unwelcome"]
        number = best_line(self.story, content_of(tried), TRIED, told)
        return Reaction(self.draws.words(options, "tried", content_word(sentence, random, among=shared)), line=number)

    def _answer(self, reply: str, asked: Evidence, top: Evidence | None, change: int, told: Sequence[int], turn: int) -> Reaction:
        """An untold line that shares a word with the question answers it; a told one is pointed at; else the answer is vague."""
        question, phrases = sentence_of(reply, asked.span), wordings()["answers"]
        about = content_of(question)
        number = best_line(self.story, about, 1, told)
        if number is not None:
            return Reaction(self.draws.words(phrases["unwelcome" if change < 0 else "welcome"], "answer"), line=number)
        said_before = about & frozenset[str]().union(*(content_of(self.story.lines[one]) for one in told))
        word = content_word(question, self.draws.random(f"word:{turn}"), among=said_before) if said_before else None
        if word is not None:
            return Reaction(self.draws.words(phrases["told"], "told", word))
        first = self._first(top, change, turn)
        is_answer = top is not None and top.what == QUESTION and change != 0
        return Reaction(first, after=None if is_answer else self.draws.words(phrases["vague"], "vague"))


def best_line(story: Story, about: frozenset[str], least: int, told: Sequence[int]) -> int | None:
    """The number of the untold line that shares most content words with `about`, at least `least`; the earliest of several."""
    shared = {number: len(about & content_of(line)) for number, line in enumerate(story.lines) if number not in told}
    best = max(shared, key=lambda number: (shared[number], -number), default=None)
    return best if best is not None and shared[best] >= least else None


def sentence_of(reply: str, span: str) -> str:
    """The sentence of `reply` in which `span` begins; `span` itself where it does not stand there."""
    place = reply.find(span)
    return next((one.group().strip() for one in _SENTENCE.finditer(reply) if one.start() <= place < one.end()), span)


def _sure(one: Evidence) -> float:
    return 1.0 if one.probability is None else one.probability
