"""The one thread of a pipeline run that talks to MLflow, so that nothing else waits for it."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from tasks.tracking.recorder import MlflowRecorder
from tasks.tracking.store import TrackingUnavailable

SEND_EVERY_S = 5.0

T = TypeVar("T")


class Sender(threading.Thread):
    """Sends what is in the spool every few seconds, and answers questions in between. It ends with the process, wherever it is."""

    def __init__(self, recorder: MlflowRecorder) -> None:
        super().__init__(name="MLflow sender", daemon=True)
        self.trouble: Exception | None = None  # of the last attempt
        self._recorder = recorder
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

    def run(self) -> None:
        while True:
            try:
                question, answer = self._questions.get(timeout=SEND_EVERY_S)
            except queue.Empty:
                question, answer = self._recorder.send, Future()
            try:
                result = question()
            except (TrackingUnavailable, ValueError, OSError) as error:
                self.trouble = error
                answer.set_exception(error)
                time.sleep(1.0)
            except BaseException as error:
                self.trouble = TrackingUnavailable(f"MLflow: {type(error).__name__}: {error}")
                answer.set_exception(error)
                raise
            else:
                self.trouble = None
                answer.set_result(result)
