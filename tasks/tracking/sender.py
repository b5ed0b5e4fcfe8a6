"""The one thread of a pipeline run that talks to MLflow, so that nothing else waits for it."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from tasks.tracking.recorder import MlflowRecorder
from tasks.tracking.store import TrackingUnavailable

SEND_EVERY_S = 5.0
BACK_OFF_S = 30.0  # after a failure, unless something is asked

T = TypeVar("T")


class Sender(threading.Thread):
    """Sends what is in the spool every few seconds, and answers questions in between, until `stop`. A process that ends does not wait for it."""

    def __init__(self, recorder: MlflowRecorder) -> None:
        super().__init__(name="MLflow sender", daemon=True)
        self.trouble: Exception | None = None  # of the last attempt
        self._recorder, self._stopped = recorder, False
        self._questions: queue.Queue[tuple[Callable[[], Any], Future[Any]]] = queue.Queue()

    def ask(self, question: Callable[[], T]) -> Future[T]:
        """The answer to come. What is in the spool goes first, so that a run that was not sent yet is not logged twice."""

        def after_sending() -> T:
            self._recorder.send()
            return question()

        answer: Future[T] = Future()
        self._questions.put((after_sending, answer))
        if not self.is_alive():
            self.start()
        return answer

    def stop(self) -> None:
        """End after what is under way; it does not wait for that."""
        self._stopped = True
        self._questions.put((lambda: None, Future()))

    def run(self) -> None:
        while not self._stopped:
            try:
                question, answer = self._questions.get(timeout=BACK_OFF_S if self.trouble else SEND_EVERY_S)
            except queue.Empty:
                question, answer = self._recorder.send, Future()
            try:
                answer.set_result(question())
            except (TrackingUnavailable, ValueError, OSError) as error:
                self.trouble = error
                answer.set_exception(error)
            except Exception as error:  # whoever waits must hear of it, whatever it is; a run does not end by it
                self.trouble = TrackingUnavailable(f"MLflow: {type(error).__name__}: {error}")
                answer.set_exception(self.trouble)
            else:
                self.trouble = None
