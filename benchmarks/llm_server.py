"""A chat endpoint whose models play simulated users, in a process of its own: `python -m benchmarks.llm_server [--faults 0.3] …`.

Every answer is one that the LLM user can read, unless a fault was drawn for it. How long an answer takes, and what it says, follows from the
request alone, so two runs are answered alike. It prints its address, and tells at /counts what it was asked.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import math
import subprocess
import sys
import urllib.request
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.loopback import Connections, Request

FAULTS = ("429", "500", "time-out", "cut off", "malformed", "wrong language", "empty", "no score")
_TEXT = {
    "en": ("They asked how my week was, number {}", "ugh, same as ever. The kettle broke {} times"),
    "zh": ("对方第{}次问我这周过得怎么样", "唉，还不是老样子，水壶坏了{}次"),
}
_MEDIAN_S, _SPREAD = 0.6, 0.6


def latency_s(seed: int, least_s: float, most_s: float) -> float:
    """Log-normal around 0.6 s and kept within bounds, drawn by the seed of the request."""
    return min(most_s, max(least_s, math.exp(Random(seed).gauss(math.log(_MEDIAN_S), _SPREAD)))) if most_s else 0.0


def key_of(messages: Sequence[Sequence[str]], seed: int | None) -> str:
    """What makes a request itself: (role, content) of its messages, and its seed."""
    return hashlib.sha256(json.dumps([[list(message) for message in messages], seed]).encode()).hexdigest()[:16]


def answer(body: Mapping[str, Any]) -> str:
    """Small changes, so that dialogues last for as many turns as they may."""
    number = int(key_of([[message["content"]] for message in body["messages"]], body["seed"]), 16)
    language = "zh" if "当事人" in body["messages"][0]["content"] else "en"
    text, message = (words.format(number % 997) for words in _TEXT[language])
    felt = {"content": text, "target": text, "activity": text, "feeling": text, "change": number // 997 % 6 - 2}
    spoken = {"thinking": text, "draft": text, "message": message, "wants_to_end": False}
    title = body["response_format"]["json_schema"]["schema"]["title"]
    both = {"appraisal": felt, "speech": spoken}
    return json.dumps({"AppraisalAnswer": felt, "SpeechAnswer": spoken, "CombinedAnswer": both}[title], ensure_ascii=False)


class Server:
    """`faults`: the share of answers that are not what was asked for. Whoever comes without the `key` hears it said back and no more."""

    def __init__(
        self, models: Sequence[str], key: str, least_s: float, most_s: float, slow_motion: float, faults: float, seed: int
    ) -> None:
        self.models, self.key = models, key
        self.least_s, self.most_s, self.slow_motion, self.faults, self.random = least_s, most_s, slow_motion, faults, Random(seed)
        self.calls, self.connections = 0, Connections()
        self.asked: Counter[str] = Counter()
        self.answered: Counter[str] = Counter()
        self.faulty: Counter[str] = Counter()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self.connections.serve(reader, writer, self._answer)

    async def _answer(self, request: Request, writer: asyncio.StreamWriter) -> bool:
        given = request.headers.get("authorization", "")
        if request.path != "/counts" and self.key and given != f"Bearer {self.key}":
            await _send(writer, 401, {"error": {"message": f"wrong key: {given}"}})
            return True
        if not request.content:
            await _send(writer, 200, self._counts() if request.path == "/counts" else {"data": [{"id": one} for one in self.models]})
            return True
        return await self._chat(json.loads(request.content), writer)

    async def _chat(self, body: dict[str, Any], writer: asyncio.StreamWriter) -> bool:
        self.calls += 1
        key = key_of([(message["role"], message["content"]) for message in body["messages"]], body["seed"])
        self.asked[key] += 1
        fault = self.random.choice(FAULTS) if self.random.random() < self.faults else None
        if fault:
            self.faulty[fault] += 1
        await asyncio.sleep(self.slow_motion * latency_s(body["seed"], self.least_s, self.most_s))
        if fault in ("429", "500"):
            await _send(writer, int(fault), {"error": {"message": "not now"}})
            return True
        if fault == "time-out":
            await asyncio.sleep(3600)
        text = {"wrong language": "Нет, спасибо", "empty": "", "no score": '{"change": "a lot"}'}.get(fault or "", answer(body))
        usage = {"prompt_tokens": sum(len(message["content"]) for message in body["messages"]) // 4, "completion_tokens": len(text) // 4}
        whole = {"choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}], "usage": usage}
        if fault in ("cut off", "malformed"):
            await _send(writer, 200, whole, cut=fault == "cut off", broken=fault == "malformed")
            return fault == "malformed"
        await _send(writer, 200, whole)
        if fault is None:
            self.answered[key] += 1
        return True

    def _counts(self) -> dict[str, Any]:
        sums = {"calls": self.calls, "most_connections": self.connections.most}
        return {**sums, "faulty": self.faulty, "asked": self.asked, "answered": self.answered}


async def _send(writer: asyncio.StreamWriter, status: int, value: Any, cut: bool = False, broken: bool = False) -> None:
    body = json.dumps(value).encode()[: -10 if broken else None]
    writer.write(f"HTTP/1.1 {status} x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body[: len(body) // 2 if cut else None])
    await writer.drain()


@contextmanager
def running(*options: str) -> Generator[str, None, None]:
    """A server in a process of its own; gives its address, .../v1."""
    command = (sys.executable, "-m", "benchmarks.llm_server", *options)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[1])
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def counts(url: str) -> dict[str, Any]:
    """calls, most_connections; faulty by kind; asked, and answered as it should be, by `key_of`."""
    with urllib.request.urlopen(url.replace("/v1", "/counts")) as response:
        found: dict[str, Any] = json.load(response)
        return found


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="+", default=["user-model"])
    parser.add_argument("--key", default="")
    parser.add_argument("--latency", type=float, nargs=2, default=(0.0, 0.0), metavar=("LEAST_S", "MOST_S"))
    parser.add_argument("--slow-motion", type=float, default=1.0, help="all latencies times this")
    parser.add_argument("--faults", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    least, most = options.latency
    server = Server(options.models, options.key, least, most, options.slow_motion, options.faults, options.seed)
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0, backlog=1024, limit=2**20)
    print(f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/v1", flush=True)
    await listener.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
