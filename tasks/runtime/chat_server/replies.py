"""Replies of one model, a token at a time, to whoever asks: one request after the other, in the order they came.

They are not put into one batch: how many rows a matrix has changes the last digits of what is computed with it, and now and then a token.
Alone, the same request with the same seed gets the same bytes, whoever else asks. For the same reason a prompt is read in blocks of one size,
and of what the request before has read only whole blocks are used again. A reply is always made in the same steps, whether it is streamed or
not, so both have the same text.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
import secrets
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

from rlver.components.policy.chat import ChatFormat
from rlver.components.policy.sampler import Sample, SampleRequest
from rlver.components.policy.transformers_sampler import TransformersSampler
from rlver.tasks.runtime.chat_server.completion_request import CompletionRequest, Refused

logger = logging.getLogger(__name__)

BLOCK = 512  # tokens of a prompt that are read at once: bounds the memory of its attention
DEFAULT_TOKENS = 1024  # of a reply whose request names no number
MOST_WAITING = 32  # requests in line; one more is told that the server is busy
GRACE_S = 5.0  # for the reply under way when the server stops
_ROW = "the one row"  # of the sampler's cache
_HALF_CHARACTER = "\ufffd"

Finish = Literal["stop", "length"]


@dataclass(frozen=True)
class Piece:
    """Some more text; or, last of all, why the reply ends and how many tokens it has."""

    text: str = ""
    finish: Finish | None = None
    tokens: int = 0


@dataclass
class PendingReply:
    """One reply that was asked for. Iterate to get its pieces; `leave` when nobody listens any more."""

    prompt_ids: tuple[int, ...]
    asked: CompletionRequest
    seed: int
    most_tokens: int
    pieces: asyncio.Queue[Piece | Refused] = field(default_factory=asyncio.Queue)
    left: bool = False
    begun: bool = False

    def leave(self) -> None:
        self.left = True

    async def __aiter__(self) -> AsyncIterator[Piece]:
        """Raises Refused when the reply cannot be made, or not to its end."""
        while True:
            piece = await self.pieces.get()
            if isinstance(piece, Refused):
                raise piece
            yield piece
            if piece.finish is not None:
                return


class ReplyQueue:
    """The line of those who wait, and the model that speaks. `sampler` has one row; its temperature and top_p are set for each reply."""

    def __init__(self, sampler: TransformersSampler, chat: ChatFormat, adds_system: bool, say: Callable[[str], None]) -> None:
        self._sampler, self._chat, self._adds_system, self._say = sampler, chat, adds_system, say
        self._line: asyncio.Queue[PendingReply] = asyncio.Queue()
        self._waiting: list[PendingReply] = []  # those of the line, and some whose turn has come
        self._worker: asyncio.Task[None] | None = None
        self._ends_s: float | None = None
        self._read: tuple[int, ...] = ()  # by the model, for the request before; of its prompt, `_blocks` in whole blocks
        self._blocks = 0

    async def begin(self) -> None:
        self._sampler.start()
        self._worker = asyncio.create_task(self._work())

    def stop(self) -> None:
        """Whoever waits is sent away; the reply under way has GRACE_S."""
        self._ends_s = time.monotonic() + GRACE_S
        while not self._line.empty():
            self._line.get_nowait().pieces.put_nowait(_stopping())

    async def end(self) -> None:
        if self._worker is not None:
            self._worker.cancel()
            with suppress(asyncio.CancelledError):
                await self._worker

    def ask(self, asked: CompletionRequest) -> PendingReply:
        """Stand in line. Raises Refused for what cannot be answered, and when too many wait."""
        if self._ends_s is not None:
            raise _stopping()
        self._waiting = [one for one in self._waiting if not (one.left or one.begun)]
        if len(self._waiting) >= MOST_WAITING:
            raise Refused(503, "The server is busy: too many requests wait.", code="server_busy", retry_after_s=5)
        prompt = self._prompt_ids(asked)
        room = self._sampler.capacity - len(prompt)
        if room < (asked.most_tokens or 1):
            wanted = f"; your messages have {len(prompt)} tokens and the reply was to have {asked.most_tokens or 1}"
            raise Refused(
                400,
                f"This model's maximum context length is {self._sampler.capacity} tokens{wanted}.",
                code="context_length_exceeded",
                param="messages",
            )
        seed = secrets.randbits(62) if asked.seed is None else asked.seed
        pending = PendingReply(prompt, asked, seed, asked.most_tokens or min(room, DEFAULT_TOKENS))
        self._line.put_nowait(pending)
        self._waiting.append(pending)
        return pending

    def _prompt_ids(self, asked: CompletionRequest) -> tuple[int, ...]:
        messages = [message.as_sent for message in asked.messages]
        if messages[-1]["role"] != "user":
            raise Refused(400, "The last message must be the user's.", code="invalid_value", param="messages")
        if self._adds_system and messages[0]["role"] != "system":
            messages.insert(0, {"role": "system", "content": self._chat.system})
        after_others = [two["role"] for one, two in pairwise(messages) if one["role"] != "system"]
        if "system" in after_others and not self._chat.takes_system:
            raise Refused(400, "This model takes a system message at the beginning only.", code="invalid_value", param="messages")
        try:
            return tuple(self._chat.of_messages(messages))
        except Exception as error:  # a template is a program: it refuses an order of roles in words of its own
            logger.debug("the chat template refused a conversation", exc_info=error)
            raise Refused(
                400, "The model's chat template takes no conversation of this form.", code="invalid_value", param="messages"
            ) from None

    async def _work(self) -> None:
        number = 0
        while True:
            pending = await self._line.get()
            pending.begun = True
            if pending.left:
                continue
            number += 1
            began_s = time.monotonic()
            try:
                last = await self._speak(pending)
            except Refused as refused:
                pending.pieces.put_nowait(refused)
            except Exception as error:  # whoever waits must hear of it, and the others be answered
                pending.pieces.put_nowait(Refused(500, "The server failed; its terminal says why.", code="server_failed"))
                self._tell(f"request {number}: failed: {type(error).__name__}: {error}")
            else:
                why = last.finish or "nobody listens any more"
                self._tell(f"request {number}: {len(pending.prompt_ids)}+{last.tokens} tokens, {time.monotonic() - began_s:.1f} s, {why}")

    def _tell(self, line: str) -> None:
        with suppress(OSError, ValueError):  # nobody reads there any more, or the disk is full: whoever waits is served all the same
            self._say(line)

    async def _speak(self, pending: PendingReply) -> Piece:
        """Make the reply, and put its pieces where they are waited for; returns the last one."""
        self._sampler.temperature, self._sampler.top_p = pending.asked.temperature, pending.asked.top_p
        text = StreamedText(self._chat, pending.asked.stop)
        try:
            for end in range(await self._kept(pending.prompt_ids) + BLOCK, len(pending.prompt_ids), BLOCK):
                await self._sample(pending.prompt_ids[:end], 0)  # what it draws is not used
                self._blocks = end
                if self._is_over(pending):
                    return Piece()
            ids: list[int] = []
            finish: Finish | None = None
            while finish is None:
                sample = await self._sample((*pending.prompt_ids, *ids), token_seed(pending.seed, len(ids)))
                if not all(map(math.isfinite, sample.logprobs)):
                    raise Refused(500, "The model's logits are not finite: its weights are broken.", code="server_failed")
                ids += sample.token_ids
                said = text.with_tokens(ids, is_last=sample.finished or len(ids) >= pending.most_tokens)
                finish = "stop" if sample.finished or text.is_stopped else "length" if len(ids) >= pending.most_tokens else None
                if said:
                    pending.pieces.put_nowait(Piece(said))
                if finish is None and self._is_over(pending):
                    return Piece(tokens=len(ids))
            last = Piece(finish=finish, tokens=len(ids))
            pending.pieces.put_nowait(last)
            return last
        except BaseException:
            self._sampler.forget(_ROW)
            self._read, self._blocks = (), 0
            raise

    async def _kept(self, prompt_ids: tuple[int, ...]) -> int:
        """How many tokens of a prompt, in whole blocks, the model has read for the request before; what else it has read is given up."""
        same = next((place for place, (a, b) in enumerate(zip(self._read, prompt_ids, strict=False)) if a != b), len(self._read))
        kept = min(same, self._blocks, len(prompt_ids) - 1) // BLOCK * BLOCK
        if kept:  # the sampler gives up what stands after the first token that is another
            other = next(token for token in range(3) if token not in (*self._read[kept : kept + 1], prompt_ids[kept]))
            await self._sample((*prompt_ids[:kept], other), 0)
        else:
            self._sampler.forget(_ROW)
        self._blocks = kept
        return kept

    async def _sample(self, context_ids: tuple[int, ...], seed: int) -> Sample:
        """One token after a context."""
        self._read = context_ids
        return await self._sampler.sample(SampleRequest(_ROW, context_ids, seed, 1))

    def _is_over(self, pending: PendingReply) -> bool:
        """Nobody listens any more. Raises Refused when the server stops and the grace has passed."""
        if self._ends_s is not None and time.monotonic() > self._ends_s:
            raise _stopping()
        return pending.left


class StreamedText:
    """The text of a reply as its tokens come: what may still be half a character, or begin a stop sequence, is held back."""

    def __init__(self, chat: ChatFormat, stop: Sequence[str]) -> None:
        self._chat, self._stop = chat, stop
        self._given = 0  # characters
        self._so_far = ""
        self.is_stopped = False

    def with_tokens(self, ids: Sequence[int], is_last: bool) -> str:
        """What can be given now that all of `ids` were sampled. A stop sequence ends the text before its first character."""
        text = self._chat.decode(ids)
        if not is_last and not text.startswith(self._so_far[: self._given]):
            return ""  # some decoders change their mind about a space; the next token settles it
        self._so_far = text
        ends = [place for stop in self._stop if (place := text.find(stop)) >= 0]
        if ends:
            self.is_stopped = True
            upto = min(ends)
        else:
            whole = text.rstrip(_HALF_CHARACTER)
            upto = len(text) if is_last else len(whole) - _begun(whole, self._stop)
        given, self._given = self._given, max(self._given, upto)
        return text[given : self._given]


def _begun(text: str, stops: Sequence[str]) -> int:
    """How many characters at the end of `text` may be the beginning of a stop sequence."""
    return max((size for stop in stops for size in range(1, len(stop)) if text.endswith(stop[:size])), default=0)


def token_seed(seed: int, place: int) -> int:
    """The seed of one token of a reply: a function of the reply's seed and the token's place only."""
    return int.from_bytes(hashlib.sha256(f"{seed}|{place}".encode()).digest()[:7], "big")


def prompt_room(model: Any, wanted: int | None, most: int) -> int:
    """Tokens of a conversation and its reply: as many as were wanted, or all that the model reads up to `most`. Raises ValueError."""
    positions = getattr(model.config, "max_position_embeddings", None)
    if wanted is not None and positions is not None and wanted > positions:
        raise ValueError(f"--context {wanted}: the model reads {positions} tokens at most")
    return wanted or min(positions or most, most)


def _stopping() -> Refused:
    return Refused(503, "The server is stopping.", code="server_stopping")
