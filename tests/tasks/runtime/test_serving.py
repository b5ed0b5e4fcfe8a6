"""The life of a vLLM server without vLLM: whose environment it is, what ends it, what its log says. test_live_vllm.py has the real one."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import psutil
import pytest
from served import rlver, wait_for

from rlver.components.domain.files import alone_with, write_json
from rlver.flows.cli import main
from rlver.tasks.runtime import environment, processes, servers
from rlver.tasks.runtime.serving import server, setup
from rlver.tasks.runtime.serving.server import Serving


def test_an_environment_that_is_missing_or_of_another_lock_is_told_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(setup.NotSetUp, match=r"missing or unfinished; make it .*: rlver serve setup"):
        setup.python_of(tmp_path)
    mark = tmp_path / setup.FOLDER / setup.MARK
    mark.parent.mkdir()
    mark.write_text("cpu 000000000000\n")
    with pytest.raises(setup.NotSetUp, match=r"is of another cpu.txt; make it anew: rlver serve setup --cpu"):
        setup.python_of(tmp_path)
    mark.write_text(f"gpu {setup._digest('gpu')}\n")
    assert setup.python_of(tmp_path) == (tmp_path / setup.FOLDER / "bin" / "python", "gpu")


@pytest.mark.parametrize("kind", ["cpu", "gpu"])
def test_a_lock_pins_everything_and_names_no_address(kind: setup.Kind) -> None:
    lines = [line for line in setup._lock(kind).read_text().splitlines() if not line.startswith("#")]
    assert len(lines) > 100 and all(re.fullmatch(r"[a-z0-9-]+==[\w.+]+", line) for line in lines)
    assert f"vllm{'-cpu' if kind == 'cpu' else ''}==0.32.0" in lines
    if kind == "cpu":
        assert not {"torchvision", "torchaudio", "torchcodec"} & {line.partition("==")[0] for line in lines}


@pytest.mark.long
def test_a_failed_installation_leaves_no_environment_that_would_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = tmp_path / "lock.txt"
    lock.write_text("./no-such-package\n")
    monkeypatch.setattr(setup, "_lock", lambda kind: lock)
    with pytest.raises(RuntimeError, match=r"`-m pip install` ended with status 1: .*no-such-package"):
        setup.set_up(tmp_path, "cpu", lambda line: None)
    with pytest.raises(setup.NotSetUp):
        setup.python_of(tmp_path)


def test_the_users_own_server_is_taken_and_none_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLVER_POLICY_SERVER_URL", "http://127.0.0.1:7999/")
    with server.available(tmp_path, Serving("models/base", 256, 4)) as url:
        assert url == "http://127.0.0.1:7999"
    monkeypatch.delenv("RLVER_POLICY_SERVER_URL")
    with pytest.raises(setup.NotSetUp), server.available(tmp_path, Serving("models/base", 256, 4)):
        pass


@pytest.mark.parametrize(
    ("what", "options", "gpus"),
    [
        (Serving("m", 256, 4), "--dtype bfloat16", None),
        (Serving("m", 256, 4, adapter_rank=24), "--enable-lora --max-loras 1 --max-cpu-loras 1 --max-lora-rank 32", None),
        (Serving("m", 256, 4, memory_share=0.4), "--dtype bfloat16 --gpu-memory-utilization 0.4", None),
        (Serving("m", 256, 4, ["--dtype", "float16"], gpus="1", memory_share=0.5),
         "--dtype bfloat16 --gpu-memory-utilization 0.5 --dtype float16", "1"),
    ],
)  # fmt: skip
def test_on_a_gpu_it_computes_as_the_trainer_and_takes_the_share_and_the_cards_it_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: Serving, options: str, gpus: str | None
) -> None:
    planned: list[servers.PlannedServer] = []

    @contextmanager
    def begin(one: servers.PlannedServer) -> Iterator[None]:
        planned.append(one)
        one.log.touch()
        yield

    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(server, "python_of", lambda root: (Path(sys.executable), "gpu"))
    monkeypatch.setattr(server.servers, "serving", begin)
    with server.serving(tmp_path, what, 7498):
        pass
    assert " ".join(planned[0].command).endswith(options) and planned[0].environment.get("CUDA_VISIBLE_DEVICES") == gpus
    assert ("VLLM_ALLOW_RUNTIME_LORA_UPDATING" in planned[0].environment) == bool(what.adapter_rank)


def test_a_folder_that_is_named_from_the_current_one_is_the_one_that_is_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """vLLM runs in the project's folder, where the same path may be another model."""

    @contextmanager
    def begin(one: servers.PlannedServer) -> Iterator[None]:
        assert (one.folder, one.command[one.command.index("--model") + 1]) == (tmp_path, str(tmp_path / "old" / "models" / "base"))
        one.log.touch()
        yield

    for folder in ("models/base", "old/models/base"):
        (tmp_path / folder).mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "old")
    monkeypatch.setattr(server, "python_of", lambda root: (Path(sys.executable), "cpu"))
    monkeypatch.setattr(server.servers, "serving", begin)
    with server.serving(tmp_path, Serving("models/base", 256, 4)):
        pass


LOADS = """
import sys, time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

class Answers(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()

    def log_message(self, *said):
        pass

while not Path("loaded").exists():
    time.sleep(0.05)
HTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Answers).serve_forever()
"""


@pytest.fixture
def project(tmp_path: Path, repository_root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose vLLM answers once there is a file `loaded`; the current directory."""
    (tmp_path / "dvc.yaml").write_text("stages: {}\n")
    (tmp_path / "base").mkdir()
    shutil.copy(repository_root / "params.yaml", tmp_path)
    python = setup._python(tmp_path / setup.FOLDER)
    python.parent.mkdir(parents=True)
    python.write_text(f"#!{sys.executable}\n{LOADS}")
    python.chmod(0o755)
    (tmp_path / setup.FOLDER / setup.MARK).write_text(f"cpu {setup._digest('cpu')}\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.long
def test_a_server_that_still_loads_is_known_and_a_second_one_refused(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    port = servers.free_port()
    start = ("serve", "start", "base", "--port", str(port))
    with rlver(*start, root=project) as first:
        noted = wait_for(lambda: server.running(project), 60)
        assert noted["url"] == f"http://127.0.0.1:{port}" and noted["owner"] == first.pid
        assert main([*start]) == 1
        assert f"{noted['url']} serves base already; stop it first: rlver serve stop" in capsys.readouterr().err
        assert main(["serve", "status"]) == 1
        assert (
            f"{noted['url']}  LOADING base: nobody listens there yet; where that takes long, its log says why: {project}/.vllm/{port}.log"
            in capsys.readouterr().out
        )
        assert server.running(project) == noted and (project / ".vllm" / f"{port}.key").is_file(), "the first one's are left alone"
        assert main(["serve", "stop"]) == 0 and f"stopped {noted['url']}" in capsys.readouterr().out
        assert not (project / server.RECORD).exists(), "so another may start at once"
        assert first.wait(60) == 0 and not server._lives(int(noted["server"]))


@pytest.mark.long
def test_a_server_is_ready_when_it_answers_and_leaves_only_its_log(project: Path) -> None:
    with rlver("serve", "start", "base", "--port", str(port := servers.free_port()), root=project) as first:
        assert first.stdout is not None
        wait_for(lambda: server.running(project), 60)
        (project / "loaded").touch()
        assert [first.stdout.readline() for _ in range(2)][1].endswith(f"s: http://127.0.0.1:{port}\n")
        assert server.stop(project) == f"http://127.0.0.1:{port}"
        assert first.wait(60) == 0
    assert [path.name for path in (project / ".vllm").iterdir()] == [f"{port}.log"], "Ctrl-C, SIGTERM and stop leave the log"


def test_a_start_that_has_no_process_yet_keeps_others_out_too(tmp_path: Path) -> None:
    refused = pytest.raises(ValueError, match="another `rlver serve start` serves a policy already; stop it first: rlver serve stop")
    with alone_with(tmp_path / server.RECORD), refused, server.started(tmp_path, Serving("base", 256, 4), 0):
        pass


def test_a_server_ends_with_its_parent_even_when_that_is_killed(tmp_path: Path) -> None:
    waits = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
    child = f"[sys.executable, '-c', {processes.WITH_ITS_PARENT!r}, str(os.getpid()), '-c', {waits!r}]"
    program = f"import os, subprocess, sys, time; subprocess.Popen({child}, start_new_session=True); time.sleep(60)"
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    served = int(parent.stdout.readline())
    assert server._lives(served)
    parent.kill()
    parent.wait()
    end = time.monotonic() + 60
    while server._lives(served) and time.monotonic() < end:
        time.sleep(0.1)
    assert not server._lives(served)


def test_a_server_whose_parent_is_gone_already_does_not_begin() -> None:
    program = "print('began')"
    ended = subprocess.run([sys.executable, "-c", processes.WITH_ITS_PARENT, "1", "-c", program], capture_output=True, text=True)
    assert ended.stdout == "" and ended.returncode == 0


def test_without_prctl_a_server_begins_all_the_same() -> None:
    """As on macOS, whose C library has no such function."""
    macos = "import ctypes, sys; sys.platform, ctypes.CDLL = 'darwin', lambda name: object()"
    command = [sys.executable, "-c", macos + processes.WITH_ITS_PARENT, str(os.getpid()), "-c", "print('began')"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "began\n"


def test_a_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    program = "print('loading'); raise ValueError('the model has no head')"
    planned = servers.PlannedServer(
        "vLLM", (sys.executable, "-c", program), environment.for_child(), tmp_path, servers.free_port(), tmp_path / "log", "/health", 30.0
    )
    why = r"the vLLM server ended with status 1: ValueError: the model has no head; log: .*/log"
    with pytest.raises(servers.ServerFailed, match=why), servers.serving(planned):
        pass


@pytest.mark.parametrize(
    ("log", "line"),
    [
        ("a\nValueError: no such model\nTraceback:\nRuntimeError: Engine core initialization failed. See root cause above.\n\n",
         "ValueError: no such model"),
        ("torch.OutOfMemoryError: CUDA out of memory\n[rank0] leaked\n", "torch.OutOfMemoryError: CUDA out of memory"),
        ("one\n\ntwo\n", "two"),
        ("", "no output"),
    ],
)  # fmt: skip
def test_the_cause_is_found_in_a_log(log: str, line: str) -> None:
    assert servers.cause(log) == line


def test_nothing_is_stopped_when_nothing_runs(tmp_path: Path) -> None:
    assert server.stop(tmp_path) is None and server.running(tmp_path) is None
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    write_json(tmp_path / server.RECORD, {"url": "http://127.0.0.1:1", "model": "m", "owner": gone.pid, "server": gone.pid})
    assert server.stop(tmp_path) is None, "a record of what died is not believed"
    record = {"url": "http://127.0.0.1:1", "model": "m", "owner": os.getpid(), "server": os.getpid()}
    for since in ({}, {"since": server._began(os.getpid()) - 5}):
        write_json(tmp_path / server.RECORD, record | since)
        assert server.running(tmp_path) is None, "its number is another process's by now"


def test_stop_takes_away_no_record_of_a_server_that_started_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    record = {"url": "http://127.0.0.1:1", "model": "m", "owner": owner.pid, "server": owner.pid, "since": server._began(owner.pid)}
    write_json(tmp_path / server.RECORD, record)

    kill = os.kill

    def end_and_start_another(pid: int, number: int) -> None:
        kill(pid, signal.SIGKILL)
        owner.wait()
        write_json(tmp_path / server.RECORD, record | {"owner": os.getpid(), "server": os.getpid(), "since": server._began(os.getpid())})

    monkeypatch.setattr(os, "kill", end_and_start_another)
    assert server.stop(tmp_path) == "http://127.0.0.1:1"
    noted = server.running(tmp_path)
    assert noted is not None and noted["server"] == os.getpid()


def test_stop_ends_the_owner_and_waits_until_the_server_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here the owner is the server, hears no Ctrl-C, as a background job of a script, and a thread reaps it, as its shell would."""
    program = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); print(flush=True); time.sleep(60)"
    owner = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert owner.stdout is not None and owner.stdout.readline()
    reaper = Thread(target=owner.wait)
    reaper.start()
    write_json(
        tmp_path / server.RECORD,
        {"url": "http://127.0.0.1:1", "model": "m", "owner": owner.pid, "server": owner.pid, "since": server._began(owner.pid)},
    )
    booted = psutil.boot_time()
    monkeypatch.setattr(psutil._psplatform, "boot_time", lambda: booted + 3600)  # somebody sets the clock
    assert server.running(tmp_path) is not None
    assert server.stop(tmp_path) == "http://127.0.0.1:1"
    assert server.running(tmp_path) is None
    reaper.join()
    assert owner.returncode == -signal.SIGTERM
