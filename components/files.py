"""Reading and writing files so that a crash never leaves half of one."""

from __future__ import annotations

import gzip
import json
import os
import secrets
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.events import AliasEvent, CollectionEndEvent, CollectionStartEvent

MOST_UNPACKED_MIB = 64
_DEEPEST_YAML = 50


class BadFile(ValueError):
    """A file that cannot be used; the message names the file, the line and what to do."""


def write_text_atomically(path: Path, text: str) -> None:
    """UTF-8 with line feeds; `path` holds the old text or the new one, never a part."""
    write_bytes_atomically(path, text.encode("utf-8"))


def write_bytes_atomically(path: Path, content: bytes) -> None:
    """Write to a neighbour, flush to disk, then rename: `path` holds the old content or the new one, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    neighbour = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with neighbour.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(neighbour, path)
    except BaseException:
        neighbour.unlink(missing_ok=True)
        raise


def write_json(path: Path, value: Any) -> None:
    """Indented JSON with sorted keys and a final newline."""
    write_text_atomically(path, json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n")


def write_jsonl(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """One JSON object a line, keys in the order given."""
    write_text_atomically(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def read_unpacked(path: Path) -> bytes:
    """The bytes of a file, plain or gzipped (told by its first bytes). Raises BadFile, also for a gzipped one that would fill the memory."""
    try:
        content = path.read_bytes()
        if content[:2] != b"\x1f\x8b":
            return content
        with gzip.open(path) as file:
            unpacked = file.read(MOST_UNPACKED_MIB << 20)
            if not file.read(1):
                return unpacked
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise BadFile(f"{path}: cannot be unpacked: {error}") from error
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
    if not isinstance(values or {}, dict):
        raise BadFile(f"{path}: expected a mapping, got {type(values).__name__}")
    return values or {}


def load_yaml(path: Path) -> Any:
    """What `path` holds: mappings, lists and scalars. Raises BadFile, also for aliases, which can make much of little, or endless values."""
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
    """Event by event, before anything is built."""
    depth = 0
    for event in YAML(typ="safe").parse(text):
        depth += isinstance(event, CollectionStartEvent) - isinstance(event, CollectionEndEvent)
        if isinstance(event, AliasEvent):
            raise BadFile(
                f"{path}: the alias *{event.anchor} in line {event.start_mark.line + 1}: aliases are not read, write the value out"
            )
        if depth > _DEEPEST_YAML:
            raise BadFile(f"{path}: more than {_DEEPEST_YAML} values inside one another, in line {event.start_mark.line + 1}")


def read_jsonl(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number from 1, object). Raises BadFile for a missing file or a line that is not a JSON object."""
    if not path.is_file():
        raise BadFile(f"{path}: no such file")
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except json.JSONDecodeError as error:
                raise BadFile(f"{path}:{number}: not valid JSON ({error.msg} at column {error.colno})") from error
            if not isinstance(row, dict):
                raise BadFile(f"{path}:{number}: expected a JSON object, got {type(row).__name__}")
            yield number, row
