"""A vLLM server as a child process on a loopback port: started, awaited, and gone when its owner is, however that ends.

It is started so that its weights can be replaced (worker.py), no default of vLLM or of the model's files decides a sample, and nobody
without its key is let in (guard.py): who may replace weights may also load files.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rlver.components.domain.files import InUse, alone_with, write_json
from rlver.tasks.runtime import environment, processes, servers
from rlver.tasks.runtime.serving.setup import HERE, python_of

START_S = 900.0
STOP_S = 60.0
_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)  # of vLLM's --max-lora-rank
RECORD = environment.VLLM / "server.json"


@dataclass(frozen=True)
class Serving:
    """What is served: a model's folder (from the current one), how long a context and how many at once; `options` go to vLLM as they are.

    `gpus` are the numbers of those it sees (None: all that this process sees), `memory_share` what it takes of each (None: vLLM's 0.9).
    `adapter_rank`: it gets adapters of this rank beside the model's own weights; 0: none.
    """

    model: str
    max_context_tokens: int
    concurrency: int
    options: Sequence[str] = ()
    gpus: str | None = None
    memory_share: float | None = None
    adapter_rank: int = 0


@contextmanager
def serving(root: Path, what: Serving, port: int = 0, on_begun: Callable[[servers.Server], None] | None = None) -> Iterator[servers.Server]:
    """A server for `what` that answers, at `port` or any free one, so that two stages never meet at one. Its log stays only after an
    error; its key lies beside it as long as it runs. `on_begun` is as PlannedServer has it. Raises NotSetUp and ServerFailed."""
    python, kind = python_of(root)
    port = servers.free_port(port)
    model = str(Path(what.model).resolve()) if Path(what.model).is_dir() else what.model  # vLLM runs in the project's folder
    command = (
        *(str(python), "-c", processes.WITH_ITS_PARENT, str(os.getpid()), "-m", "vllm.entrypoints.openai.api_server"),
        *("--model", model, "--host", servers.HOST, "--port", str(port)),
        *("--max-model-len", str(what.max_context_tokens), "--max-num-seqs", str(what.concurrency)),
        *("--worker-extension-cls", "worker.TakesWeights", "--logprobs-mode", "processed_logprobs", "--generation-config", "vllm"),
        *("--middleware", "guard.OnlyWithKey", "--allowed-origins", "[]"),
        *("--load-format", "safetensors", "--seed", "0", "--enable-scale-out", "--disable-log-stats", "--disable-uvicorn-access-log"),
        *(_on_cpu(what) if kind == "cpu" else _on_gpu(what)),
        *(_for_adapters(what.adapter_rank) if what.adapter_rank else ()),
        *what.options,
    )
    folder = root / environment.VLLM
    extra = {"PYTHONPATH": str(HERE), "VLLM_SERVER_DEV_MODE": "1", "VLLM_API_KEY": environment.keep_key(folder, port)}
    if what.adapter_rank:
        extra["VLLM_ALLOW_RUNTIME_LORA_UPDATING"] = "True"
    if what.gpus is not None:
        extra["CUDA_VISIBLE_DEVICES"] = what.gpus
    defaults = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "VLLM_LOGGING_LEVEL": "WARNING"}  # GiB; not to cores
    surroundings = {**defaults, **environment.for_child(extra)}
    log = folder / f"{port}.log"
    try:
        with servers.serving(servers.PlannedServer("vLLM", command, surroundings, root, port, log, "/health", START_S, on_begun)) as server:
            yield server
    finally:
        environment.key_file(folder, port).unlink(missing_ok=True)
    log.unlink()


def _on_cpu(what: Serving) -> tuple[str, ...]:
    """float32 as the trainer; the worker in the engine's process, which saves a process and its messages; no compiler. A prompt is read
    as a whole, because reading it in parts together with seeds ends vLLM 0.32 ("CPU Generator does not use offset")."""
    return (
        *("--dtype", "float32", "--enforce-eager", "--no-enable-chunked-prefill"),
        *("--max-num-batched-tokens", str(max(8192, what.max_context_tokens))),
        *("--distributed-executor-backend", "vllm.v1.executor.uniproc_executor.UniProcExecutor"),
    )


def _on_gpu(what: Serving) -> tuple[str, ...]:
    """bfloat16, as the trainer multiplies there, whatever the weights were saved in."""
    share = () if what.memory_share is None else ("--gpu-memory-utilization", str(what.memory_share))
    return ("--dtype", "bfloat16", *share)


def _for_adapters(rank: int) -> tuple[str, ...]:
    """One set of adapters at a time. vLLM knows certain ranks only; smaller ones fit into the next."""
    most = next((known for known in _RANKS if known >= rank), rank)
    return ("--enable-lora", "--max-loras", "1", "--max-cpu-loras", "1", "--max-lora-rank", str(most))


@contextmanager
def available(root: Path, what: Serving) -> Iterator[str]:
    """The address of the user's own server, or of one for `what` that is there for as long as this lasts."""
    if own := environment.policy_server_url(root):
        yield own
    else:
        with serving(root, what) as server:
            yield server.url


@contextmanager
def started(root: Path, what: Serving, port: int) -> Iterator[servers.Server]:
    """The same for `rlver serve start`: at most one in a project, known to `stop` and `status` while it still loads its model too.

    Nobody else writes or removes the record meanwhile. Raises ValueError where another server is there, or one of a dead owner.
    """
    with ExitStack() as held:
        try:
            held.enter_context(alone_with(root / RECORD))
            other = running(root)
        except InUse:
            other = running(root) or {"url": "another `rlver serve start`", "model": "a policy"}  # that has no process yet
        if other:
            raise ValueError(f"{other['url']} serves {other['model']} already; stop it first: rlver serve stop")
        held.callback((root / RECORD).unlink, missing_ok=True)
        yield held.enter_context(serving(root, what, port, partial(_note, root, what.model)))


def _note(root: Path, model: str, server: servers.Server) -> None:
    pid = server.process.pid
    write_json(root / RECORD, {"url": server.url, "model": model, "owner": os.getpid(), "server": pid, "since": _began(pid)})


def _noted(root: Path) -> dict[str, str | int] | None:
    try:
        noted: dict[str, str | int] = json.loads((root / RECORD).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return noted


def running(root: Path) -> dict[str, str | int] | None:
    """What `rlver serve start` noted; None when nothing of it runs any more."""
    noted = _noted(root)
    if noted is None:
        return None
    server = int(noted["server"])
    is_it = _lives(server) and abs(_began(server) - float(noted.get("since", -9))) <= 1  # the number may be another process's by now
    return noted if is_it else None


def log_of(root: Path, url: str) -> Path:
    """Where the server that was started here for `url` writes what it says."""
    return root / environment.VLLM / f"{url.rpartition(':')[2]}.log"


def stop(root: Path) -> str | None:
    """Stop what `rlver serve start` started and return its address, or None when nothing runs."""
    noted = running(root)
    if noted is None:
        return None
    owner, server = int(noted["owner"]), int(noted["server"])
    os.kill(owner if _lives(owner) else server, signal.SIGTERM)  # a job that a script put into the background hears no SIGINT
    end = time.monotonic() + STOP_S
    while _lives(server) or (_lives(owner) and _noted(root) == noted):  # the owner takes its record away last: then another may start
        if time.monotonic() > end:
            raise servers.ServerFailed(f"{noted['url']} is still there after {STOP_S:.0f} s; its process is {server}")
        time.sleep(0.2)
    if _noted(root) == noted:
        (root / RECORD).unlink(missing_ok=True)
    return str(noted["url"])


def _began(pid: int) -> int:
    """Whole seconds after the boot of the machine: setting its clock does not move them."""
    import psutil  # comes with the extra `train`; a dialogue over a chat endpoint starts no server and does without

    return int(psutil.Process(pid).create_time() - psutil.boot_time())


def _lives(pid: int) -> bool:
    """Whether the process still does anything; one that nobody has reaped does not."""
    import psutil

    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
