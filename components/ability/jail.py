"""What sandbox.py starts: shuts a command in, watches its time and ends whatever is left of it. Imports nothing of the project.

Usage: jail.py FOLDER WALLS SECONDS VISIBLE COMMAND...  (WALLS: "root" for a file system of its own, "drop" to become nobody, joined by a
comma; VISIBLE: the paths that the command needs, joined by colons.) Ends with the command's status, or with 1.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
import time
from contextlib import suppress

NOBODY = 65534
MEMORY_BYTES = 2 << 30
FILE_BYTES = 10 << 20
PROCESSES = 64
OPEN_FILES = 256
FOLDER = "/box"  # the only one that can be written to, in a file system of its own; no path of this project can lie below it
_FOLDER_LIMITS = "mode=755,size=64m,nr_inodes=16k"
_SYSTEM = ("/usr", "/bin", "/lib", "/lib64", "/nix/store", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")
_IS_LINUX = sys.platform == "linux"
LIMITS = {"FSIZE": FILE_BYTES, "NPROC": PROCESSES, "NOFILE": OPEN_FILES, "CORE": 0, **({"AS": MEMORY_BYTES} if _IS_LINUX else {})}
_LIBC = ctypes.CDLL(None, use_errno=True)
# of linux/prctl.h, sys/mount.h
_CAPBSET_DROP, _SET_CHILD_SUBREAPER, _SET_NO_NEW_PRIVS = 24, 36, 38
_RDONLY, _NOSUID, _NODEV, _REMOUNT, _BIND, _REC, _PRIVATE = 1, 2, 4, 32, 4096, 16384, 1 << 18
_KEPT = os.ST_NOSUID | os.ST_NODEV | os.ST_NOEXEC | os.ST_NOATIME | os.ST_NODIRATIME | os.ST_RELATIME if _IS_LINUX else 0


def main(folder: str, walls: str, seconds: str, visible: str, *command: str) -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    if "root" in walls:
        _own_root(folder, visible.split(":"))
        folder = FOLDER
    if _IS_LINUX:
        _LIBC.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # so that orphans become ours, also those in a session of their own
    deadline = time.monotonic() + float(seconds)
    child = os.fork()
    if child == 0:
        _become(folder, "drop" in walls, command)
    try:
        while time.monotonic() < deadline:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                return max(os.waitstatus_to_exitcode(status), 0) if os.WIFEXITED(status) else 1
            time.sleep(0.005)
        return 1
    finally:
        if os.getpid() != 1:  # with a process table of its own, the kernel ends all of it with us
            _end_everything(child)


def _own_root(folder: str, visible: list[str]) -> None:
    """A root of the system's programs and Python, read only, and one small folder in memory. No /proc, no home, nothing of the user."""
    os.umask(0o022)
    _mount("none", "/", "", _REC | _PRIVATE)
    _mount("tmpfs", folder, "tmpfs", _NOSUID | _NODEV, _FOLDER_LIMITS)
    for path in sorted({*_SYSTEM, *_DEVICES, *visible}, key=lambda path: path.count("/")):
        inside = folder + path
        if not os.path.exists(path) or os.path.lexists(inside):
            continue
        os.makedirs(os.path.dirname(inside), exist_ok=True)
        if os.path.islink(path) and path in _SYSTEM:
            os.symlink(os.readlink(path), inside)
            continue
        if os.path.isdir(path):
            os.mkdir(inside)
        else:
            os.close(os.open(inside, os.O_CREAT))
        _mount(path, inside, "", _BIND | _REC)
        device = 0 if path in _DEVICES else _NODEV
        _mount("none", inside, "", _BIND | _REMOUNT | _RDONLY | _NOSUID | device | (os.statvfs(inside).f_flag & _KEPT))
    writable = folder + FOLDER
    os.makedirs(writable, exist_ok=True)
    os.chmod(writable, 0o1777)
    os.chroot(folder)
    os.chdir("/")


def _mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    words = [word.encode() for word in (source, target, kind)]
    if _LIBC.mount(*words, ctypes.c_ulong(flags), options.encode() or None) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), target)


def _become(folder: str, drop: bool, command: tuple[str, ...]) -> None:
    """The command, without rights: exec drops what is left of them, and everything this process knows."""
    try:
        os.setsid()
        if _IS_LINUX:
            for capability in range(64):
                _LIBC.prctl(_CAPBSET_DROP, capability, 0, 0, 0)
            _LIBC.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        if drop:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        os.chdir(folder)
        for name, most in LIMITS.items():
            limit(getattr(resource, f"RLIMIT_{name}"), most)
        os.execv(command[0], command)
    except (OSError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        sys.stderr.flush()
    finally:
        os._exit(127)


def limit(kind: int, most: int) -> None:
    """Bound a resource, unless it is bounded more tightly already. A bound that the system does not take ends the attempt: without the
    program's failure being known for that of its walls, every answer would count as wrong."""
    hard = resource.getrlimit(kind)[1]
    bound = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(kind, (bound, bound))


def _end_everything(child: int, seconds: float = 5.0) -> None:
    """The command's processes, and every descendant, as it becomes ours. Without a process table of our own, which is better."""
    deadline = time.monotonic() + seconds
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    with suppress(ChildProcessError):
        while time.monotonic() < deadline:
            for pid in _children():
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                time.sleep(0.005)


def _children() -> list[int]:
    """Direct children; none where there is no /proc."""
    ours, found = str(os.getpid()), []
    for name in os.listdir("/proc") if _IS_LINUX else ():
        if name.isdigit():
            with suppress(OSError), open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as stat:
                if stat.read().rpartition(")")[2].split()[1] == ours:
                    found.append(int(name))
    return found


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
