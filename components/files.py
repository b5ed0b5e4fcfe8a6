"""Reading and writing files so that a crash never leaves half of one."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError


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


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping in `path`; empty for an empty file. YAML 1.2: `2e-06`, as DVC writes it, is a number; PyYAML reads text. Raises BadFile."""
    try:
        values = YAML(typ="safe").load(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise BadFile(f"{path}: no such file") from error
    except (YAMLError, UnicodeDecodeError) as error:
        raise BadFile(f"{path}: not valid YAML: {' '.join(str(error).split())}") from error
    if not isinstance(values or {}, dict):
        raise BadFile(f"{path}: expected a mapping, got {type(values).__name__}")
    return values or {}


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
