"""The next step's dialogues, held while those of this step are learned from: a step takes as long as the slower half, not as both.

The price is one step of staleness: dialogues are sampled with the weights before the last update. Their log-probabilities come along, so the loss
corrects and clips for it as for any step off policy. Between two steps, what holds the dialogues belongs to them: `settled` lends it to others.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass

from rlver.components.rollout.episode import Rollout

Hold = Callable[[Sequence[str], int], list[Rollout]]


@dataclass(frozen=True)
class Ahead:
    """Dialogues of a step that nobody has asked for yet."""

    persona_ids: tuple[str, ...]
    step: int
    held: Future[list[Rollout]]


class OneStepAhead:
    """`hold`, as a trainer calls it for each step, but one step ahead.

    `after(step)` gives personas and number of the step that follows, or None at the end. `snapshot` lets the weights that speak be those of now;
    it is never called while dialogues are held.
    """

    def __init__(self, hold: Hold, after: Callable[[int], tuple[Sequence[str], int] | None], snapshot: Callable[[], None]) -> None:
        self._hold, self._after, self._snapshot = hold, after, snapshot
        self._ahead: Ahead | None = None

    def __call__(self, persona_ids: Sequence[str], step: int) -> list[Rollout]:
        """The dialogues of this step; those of the next begin. Raises what ended them, and RuntimeError for a step that nobody expected."""
        if self._ahead is None:
            self._snapshot()
            rollouts = self._hold(persona_ids, step)
        else:
            ahead, self._ahead = self._ahead, None
            rollouts = ahead.held.result()
            if (ahead.persona_ids, ahead.step) != (tuple(persona_ids), step):
                raise RuntimeError(
                    f"dialogues of step {ahead.step} were held ahead, and step {step} was asked for, or other personas of it"
                )
        following = self._after(step)
        if following is not None:
            self._snapshot()
            self._ahead = self._begun(tuple(following[0]), following[1])
        return rollouts

    @contextmanager
    def settled(self) -> Iterator[None]:
        """Inside, no dialogues are under way: whoever holds some there starts the policy first."""
        if self._ahead is not None:
            self._ahead.held.exception()  # waits; whoever asks for the step hears of an error
        yield

    def _begun(self, persona_ids: tuple[str, ...], step: int) -> Ahead:
        held: Future[list[Rollout]] = Future()

        def work() -> None:
            try:
                held.set_result(self._hold(persona_ids, step))
            except BaseException as error:  # the step that asks for them hears of it, whatever it is
                held.set_exception(error)

        # daemon: a training that is broken off waits for nobody
        threading.Thread(target=work, name=f"dialogues of step {step}", daemon=True).start()
        return Ahead(persona_ids, step, held)
