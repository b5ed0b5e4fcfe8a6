"""Reading and writing files so that a crash never leaves half of one.

What is written replaces a regular file, through links too, and nothing else: never a device, a pipe or a folder. Standard output is `-`.
What is read may be anybody's: whatever is wrong with it is one BadFile.
"""

from __future__ import annotations

import fcntl
import gzip
import io
import json
import os
import secrets
import stat
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.events import AliasEvent, CollectionEndEvent, CollectionStartEvent, NodeEvent

from rlver.components.domain.printable import printable

STANDARD_OUTPUT = Path("-")
MOST_UNPACKED_MIB = 64
MOST_OF_ALIASES = 1000  # values
_DEEPEST_YAML = 50
_GZIPPED = b"\x1f\x8b"  # how such a file begins


class BadFile(ValueError):
    """A file that cannot be used; the message names the file, the line and what to do."""


class InUse(ValueError):
    """Another process is at work on a file; the message says which process, and what to do."""


def write_text_atomically(path: Path, text: str) -> None:
    """UTF-8 with line feeds; `path` holds the old text or the new one, never a part."""
    write_bytes_atomically(path, text.encode("utf-8"))


def write_bytes_atomically(path: Path, content: bytes) -> None:
    """Write to a neighbour, flush to disk, then rename: `path` holds the old content or the new one, never a part.

    Raises BadFile where no regular file can be written.
    """
    if path == STANDARD_OUTPUT:
        _write_to_standard_output(content)
        return
    target = target_of(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    neighbour = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        with neighbour.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(neighbour, target)
    except BaseException as error:
        neighbour.unlink(missing_ok=True)
        if isinstance(error, OSError):  # of the file that was asked for: nobody knows the neighbour's name
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise


def target_of(path: Path) -> Path:
    """The file that writing to `path` replaces: what a link leads to, so that the link stays. Raises BadFile for no regular file.

    A link to a file that nobody may write is replaced itself: it is a link into DVC's cache, which must keep what it has.
    """
    target = Path(os.path.realpath(path))
    try:
        mode = path.stat().st_mode  # not of `target`: what /dev/stdout leads to may be a pipe that has no path
    except FileNotFoundError:
        return target
    except NotADirectoryError as error:
        raise BadFile(f"{path}: cannot be written, a part of the path is a file and no folder; name another") from error
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "a device, a pipe or a socket"
        raise BadFile(f"{path} is {kind}, not a regular file: nothing is written; name a file")
    is_protected = path.is_symlink() and not mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH)
    return Path(os.path.realpath(path.parent)) / path.name if is_protected else target


def files_in(folder: Path) -> list[Path]:
    """Every file of a folder, however deep, but for what Python compiled or is compiling (`.pyc.123`)."""
    return sorted(path for path in folder.rglob("*") if ".pyc" not in path.suffixes and path.is_file())


@contextmanager
def alone_with(path: Path) -> Iterator[None]:
    """Raise InUse while another process is alone with `path`, which need not exist. However a process ends, it no longer is.

    The lock is the system's, on a neighbour of what writing to `path` replaces, so that a link is no second file. It names the process and
    goes with the last one.
    """
    target = target_of(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    lock = target.with_name(f".{target.name}.lock")
    with lock.open("a+") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            held.seek(0)
            raise InUse(f"process {held.read().strip() or '?'} is writing {path} now: wait for its end, or name another file") from None
        if not lock.exists() or not os.path.samestat(os.fstat(held.fileno()), lock.stat()):
            raise InUse(f"another process was writing {path} a moment ago: run the same command again")
        try:
            held.truncate(0)
            held.write(f"{os.getpid()}\n")
            held.flush()
            yield
        finally:
            lock.unlink(missing_ok=True)


@contextmanager
def exclusive_lock(folder: Path) -> Iterator[None]:
    """Raise InUse while another process trains in `folder`, which is made if need be. However a process ends, it no longer does."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InUse(f"another training is at work in {folder}: wait for its end, or end it, then run the same command again") from None
        yield


def write_json(path: Path, value: Any) -> None:
    """Indented JSON with sorted keys and a final newline."""
    write_text_atomically(path, json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n")


def write_jsonl(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """One JSON object a line, keys in the order given."""
    write_text_atomically(path, "".join(map(jsonl_line, rows)))


def jsonl_line(row: Mapping[str, Any]) -> str:
    return f"{json.dumps(row, ensure_ascii=False)}\n"


def read_unpacked(path: Path) -> bytes:
    """The bytes of a file, plain or gzipped (told by its first bytes). Raises BadFile, also for a gzipped one that would fill the memory."""
    try:
        content = path.read_bytes()
        if content[:2] != _GZIPPED:
            return content
        with gzip.open(path) as file:
            unpacked = file.read(MOST_UNPACKED_MIB << 20)
            if not file.read(1):
                return unpacked
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise BadFile(f"{path}: cannot be unpacked: {error}; copy or pack it again") from error
    except OSError as error:
        raise _unreadable(path, error) from error
    raise BadFile(f"{path}: unpacks to more than {MOST_UNPACKED_MIB} MiB; if you trust it, unpack it yourself and name the plain file")


def _unreadable(path: Path, error: OSError) -> BadFile:
    return BadFile(f"{path}: {'no such file' if isinstance(error, FileNotFoundError) else f'cannot be read: {error.strerror}'}")


def whole_characters(value: Any) -> Any:
    """JSON's `value` with a replacement character where a text holds half of a character, which no file can keep."""
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return json.loads(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
    return value


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping in `path`; empty for an empty file. YAML 1.2: `2e-06`, as DVC writes it, is a number; PyYAML reads text. Raises BadFile."""
    values = load_yaml(path)
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise BadFile(f"{path}: expected a mapping, got {type(values).__name__}")
    return values


def load_yaml(path: Path) -> Any:
    """What `path` holds: mappings, lists and scalars. Raises BadFile, also for aliases that make much of little, or endless values."""
    try:
        text = path.read_text(encoding="utf-8")
        _refuse_bombs(path, text)
        return YAML(typ="safe").load(text)
    except BadFile:
        raise
    except OSError as error:
        raise _unreadable(path, error) from error
    except (YAMLError, ValueError, LookupError, TypeError, AttributeError) as error:  # all but the first: of tags such as `!!int x`
        raise BadFile(f"{path}: not valid YAML: {' '.join(str(error).split())}") from error


def _refuse_bombs(path: Path, text: str) -> None:
    """Event by event, before anything is built: how deep it is, and how much it becomes with each alias written out (`<<: *common`)."""
    open_nodes: list[_Node] = [_Node("")]
    anchored: dict[str, _Node] = {}
    for event in YAML(typ="safe").parse(text):
        if isinstance(event, CollectionEndEvent):
            node = open_nodes.pop()
        elif isinstance(event, AliasEvent):
            node = anchored.get(event.anchor, _Node("", size=MOST_OF_ALIASES + 1))  # one that stands inside itself has no end
            node = replace(node, anchor="", by_alias=node.size)
        elif isinstance(event, NodeEvent):
            node = _Node(event.anchor or "")
        else:
            continue
        if isinstance(event, CollectionStartEvent):
            open_nodes.append(node)
        else:
            open_nodes[-1].take(node)
            anchored |= {node.anchor: node} if node.anchor else {}
        where = f"{path}: line {event.start_mark.line + 1}"
        if open_nodes[0].by_alias > MOST_OF_ALIASES or open_nodes[-1].by_alias > MOST_OF_ALIASES:
            raise BadFile(f"{where}: its aliases become more than {MOST_OF_ALIASES} values; write out what you need")
        if len(open_nodes) - 1 + open_nodes[-1].depth > _DEEPEST_YAML:
            raise BadFile(f"{where}: more than {_DEEPEST_YAML} values inside one another")


@dataclass
class _Node:
    """A value of a YAML file: how many it holds, itself included, how many of these by aliases, and how deep they lie in it."""

    anchor: str
    size: int = 1
    by_alias: int = 0
    depth: int = 0

    def take(self, inner: _Node) -> None:
        self.size += inner.size
        self.by_alias += inner.by_alias
        self.depth = max(self.depth, inner.depth + 1)


def read_json(path: Path, remedy: str = "") -> Any:
    """What `path` holds; `remedy` says what makes the file anew. Raises BadFile, for a missing file too."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise _unreadable(path, error) from error
    return parse_json(content, str(path), remedy)


def read_jsonl(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number from 1, object). Raises BadFile for a missing file or a line that is not a JSON object."""
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise BadFile(f"{path}: a pipe or a device, which cannot be read twice; save what it gives to a file and name that")
        file = path.open("rb")
        if file.peek(2)[:2] == _GZIPPED:
            file.close()
            file = io.BufferedReader(io.BytesIO(read_unpacked(path)))
    except OSError as error:
        raise _unreadable(path, error) from error
    with file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            row = parse_json(line, f"{path}:{number}", "mend the line or take it out")
            if not isinstance(row, dict):
                raise BadFile(f"{path}:{number}: expected a JSON object, got {type(row).__name__}")
            yield number, row


def parse_json(content: bytes, where: str, remedy: str = "") -> Any:
    """The JSON value in UTF-8. Raises BadFile, which begins with `where`, for anything else, however deep or long."""
    try:
        value = json.loads(content.decode("utf-8-sig"))  # Windows marks files so
        return whole_characters(value) if b"\\ud" in content.lower() else value  # only an escape can be half of a character
    except (ValueError, RecursionError) as error:
        raise BadFile(f"{where}: not valid JSON ({_reason(error)}){remedy and f'; {remedy}'}") from error


def _reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at {f'line {error.lineno}, ' if error.lineno > 1 else ''}column {error.colno}"
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.start + 1} is not UTF-8: save the file with that encoding"
    return "nested too deeply" if isinstance(error, RecursionError) else " ".join(str(error).split())


def _write_to_standard_output(content: bytes) -> None:
    """As it is into a pipe or a file; a terminal would obey what it holds."""
    stream = sys.__stdout__
    if stream is None:
        raise BadFile("there is no standard output to write to: name a file")
    stream.buffer.write(printable(content.decode("utf-8")).encode("utf-8") if stream.isatty() else content)
    stream.buffer.flush()
