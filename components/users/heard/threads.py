"""Several replies at a time, each by a thread of its own.

A reply is too small a piece of work to be shared well: on two cores two threads read two replies in two thirds of the time that both together need for
one after the other. And where torch decides how many threads multiply, as on Linux, no sum depends on how many there are.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from threading import Barrier, RLock
from typing import Generic, TypeVar

import torch

T = TypeVar("T")
AT_MOST = 16  # threads: each needs about 100 MB while it reads a long reply


def one_each() -> ThreadPoolExecutor:
    """As many threads as this process computes with, up to AT_MOST. What runs in one of them computes in that thread alone."""
    of_the_process = torch.get_num_threads()
    threads = min(of_the_process, AT_MOST)
    pool, all_are_there = ThreadPoolExecutor(threads, "reader", _alone), Barrier(threads)
    try:
        for started in [pool.submit(all_are_there.wait) for _ in range(threads)]:
            started.result()
    except BaseException:
        all_are_there.abort()
        raise
    finally:
        torch.set_num_threads(of_the_process)  # for threads to come; the setting of a thread that has asked for it stays
    return pool


def _alone() -> None:
    torch.set_num_threads(1)
    torch.get_num_threads()  # else torch would set it anew at the first sum


class ReadOnce(Generic[T]):
    """What `read` makes of texts, in the threads of `pool` (None: in the caller's): each is read once while it is among the last `most`."""

    def __init__(self, read: Callable[..., T], pool: ThreadPoolExecutor | None, most: int) -> None:
        self._read, self._pool, self._most = read, pool, most
        self._asked: OrderedDict[tuple[str, ...], Future[T]] = OrderedDict()
        self._lock = RLock()

    def soon(self, *texts: str) -> Future[T]:
        """Whoever no longer needs it may cancel it. What was cancelled or went wrong is not kept: it is read again."""
        with self._lock:
            asked = self._asked.get(texts)
            if asked is None or asked.cancelled() or (asked.done() and asked.exception() is not None):
                asked = self._asked[texts] = self._begun(*texts)
            self._asked.move_to_end(texts)
            if len(self._asked) > self._most:
                self._asked.popitem(last=False)
            return asked

    def wait(self, *texts: str) -> T:
        while True:
            try:
                return self.soon(*texts).result()
            except CancelledError:
                continue  # by somebody else, who asked for the same and needs it no longer

    def _begun(self, *texts: str) -> Future[T]:
        if self._pool is not None:
            return self._pool.submit(self._read, *texts)
        read: Future[T] = Future()
        read.set_result(self._read(*texts))
        return read
