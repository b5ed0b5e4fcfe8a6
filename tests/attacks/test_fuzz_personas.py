"""Everything that reads personas and profiles of others, plain and gzipped."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from fakes import people
from fuzzing import MOST_GROWTH_MIB, Memory, fuzz, times
from mutation import as_lines, mutants
from profiles import profile

from rlver.components.domain.files import BadFile
from rlver.components.formats.foreign import read_chats
from rlver.components.personas.profiles import import_profiles
from rlver.components.personas.schema import validate_file
from rlver.components.users.llm.prompts import persona_text
from rlver.tasks.studies.distil.recordings import recorded

PERSONAS = [[persona.model_dump(mode="json") for persona in people()[1][:2]], [people()[1][2].model_dump(mode="json")]]
PROFILES = [[profile(), profile(id="two", first_talk="你好，最近睡不好。", topic="家人")], [profile(id="three", main_cha="被动型")]]


@pytest.mark.long
@times
def test_personas(times: int, tmp_path: Path) -> None:
    path = tmp_path / "foreign.jsonl"

    def read(content: bytes) -> None:
        path.write_bytes(content)
        for persona in validate_file(path):
            f"{persona.model_dump_json()}{persona_text(persona)}".encode()

    fuzz(mutants(PERSONAS, as_lines), read, times, path.name)


@pytest.mark.long
@times
def test_profiles(times: int, tmp_path: Path) -> None:
    path = tmp_path / "foreign.jsonl"

    def read(content: bytes) -> None:
        path.write_bytes(content)
        for persona in import_profiles(path, "test"):
            f"{persona.model_dump_json()}{persona_text(persona)}".encode()

    fuzz(mutants(PROFILES, as_lines), read, times, path.name)


@pytest.mark.parametrize("read", [validate_file, lambda path: import_profiles(path, "test"), recorded, read_chats])
def test_a_gzip_bomb_is_refused_before_it_fills_the_memory(read: Callable[[Path], object], tmp_path: Path) -> None:
    path = tmp_path / "bomb.jsonl.gz"
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    path.write_bytes(b"".join(packer.compress(b" " * (1 << 20)) for _ in range(100)) + packer.flush())
    assert path.stat().st_size < 200_000
    memory = Memory()
    with pytest.raises(BadFile, match=r"bomb\.jsonl\.gz: unpacks to more than 64 MiB; if you trust it, unpack it yourself"):
        read(path)
    assert memory.grown_mib() < MOST_GROWTH_MIB
