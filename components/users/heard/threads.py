"""Several replies at a time, each by a thread of its own.

A reply is too small a piece of work to be shared well: on two cores two threads read two replies in two thirds of the time that both together need for
one after the other. And no sum depends on how many threads there are.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import torch


def one_each() -> ThreadPoolExecutor:
    """As many threads as this process computes with. What runs in one of them computes in that thread alone."""
    threads = torch.get_num_threads()
    pool, all_are_there = ThreadPoolExecutor(threads, "reader", _alone), Barrier(threads)
    for started in [pool.submit(all_are_there.wait) for _ in range(threads)]:
        started.result()
    torch.set_num_threads(threads)  # for threads to come; the setting of a thread that has asked for it stays
    return pool


def _alone() -> None:
    torch.set_num_threads(1)
    torch.get_num_threads()  # else torch would set it anew at the first sum
