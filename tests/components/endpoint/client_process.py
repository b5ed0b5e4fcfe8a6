"""Asks many questions and prints each as it is answered; a test kills it halfway. Arguments: address, file of answers, questions."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from scripted_server import ask, key, parameters

from rlver.components.endpoint.opening import open_endpoint


async def main(url: str, path: Path, questions: int) -> None:
    async with open_endpoint(parameters(url, concurrency=8), key, path, replay=False) as endpoint:

        async def one(number: int) -> None:
            answer = await endpoint.chat(ask(f"question {number}"))
            print(f"question {number}\t{answer.text}", flush=True)

        await asyncio.gather(*(one(number) for number in range(questions)))


asyncio.run(main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])))
