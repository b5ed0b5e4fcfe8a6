"""Everything that reads the files of a model: the check that runs before any library does, the libraries behind it, learned appraisers."""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from broken_models import WEIGHTS, appraise_once, appraiser_in, policy_in
from fuzzing import fuzz, times
from mutation import Inputs, as_json, mutants
from safetensors.torch import load_file, save_file

from rlver.components.policy import load
from rlver.components.policy.chat import ChatFormat
from rlver.components.policy.load import load_policy
from rlver.components.policy.sampler import SampleRequest
from rlver.components.policy.transformers_sampler import TransformersSampler
from rlver.components.users.distilled.folder import ARRAYS, CARD, FACTS, fidelity_of, read_folder

INDEX = f"{WEIGHTS}.index.json"
# What a reader of headers may take for a size, a place, a kind or an architecture.
RAWS = (
    '"F32"', '"I8"', '"F8_E4M3"', '"BF16"', "[0]", "[1, 1]", "[4294967296, 4294967296]", "[-1]", "[0, 18446744073709551615]", "[0, 0]", "[100, 4]",
    '"llama"', '"gpt2"', '"bert"', '"t5"', '"mamba"', '["Qwen2Model"]', '{"AutoModelForCausalLM": "evil.Model"}', '"evil/kernel"', '"float16"', "3", "32",
    '{"rope_type": "yarn", "factor": 0}', '{"rope_type": "dynamic", "factor": 1e9}', '"sliding_attention"', '"../../etc/passwd.safetensors"', '"a.bin"',
    '"{% for a in range(99999) %}{{ a }}{% endfor %}"', '"{{ messages[0].__class__.__mro__ }}"', '{"type": "Split", "pattern": {"Regex": "(a+)+$"}}', "388",
)  # fmt: skip
more_times = pytest.mark.parametrize("times", [25, pytest.param(2_000, marks=pytest.mark.slow)])  # a library takes 40 ms for each


def mutated(path: Path) -> tuple[Inputs, Callable[[bytes], object]]:
    """Mutants of a model's file, and what writes one in its place. Of a safetensors file the header and the first of the numbers are
    mutated, and the rest stays."""
    if path.suffix != ".safetensors":
        document = json.loads(path.read_text()) if path.suffix == ".json" else path.read_bytes()
        return mutants([document], as_json, RAWS), path.write_bytes
    content = path.read_bytes()
    end = 8 + struct.unpack("<Q", content[:8])[0]
    header, numbers, rest = json.loads(content[8:end]), content[end : end + 200], content[end + 200 :]

    def write(value: Any) -> bytes:
        text = as_json(value)
        return struct.pack("<Q", len(text)) + text + numbers

    noted = {**header, "__metadata__": {"format": "pt", "of": "nobody", "note": "nothing"}}
    return mutants([header, noted], write, RAWS), lambda begin: path.write_bytes(begin + rest)


def in_shards(folder: Path) -> Path:
    tensors = load_file(folder / WEIGHTS)
    (folder / WEIGHTS).rename(folder / "a.safetensors")
    save_file({"model.norm.weight": tensors["model.norm.weight"]}, folder / "b.safetensors", metadata={"format": "pt"})
    places = dict.fromkeys(tensors, "a.safetensors") | {"model.norm.weight": "b.safetensors"}
    (folder / INDEX).write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": places}))
    return folder


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    return policy_in(tmp_path / "policy")


@times
@pytest.mark.parametrize("file", [WEIGHTS, "config.json", INDEX])
def test_what_is_checked_before_any_library_reads_a_policy(file: str, times: int, policy: Path) -> None:
    if file == INDEX:
        in_shards(policy)
    inputs, put = mutated(policy / file)

    def read(content: bytes) -> None:
        put(content)
        load._check_files(policy)

    fuzz(inputs, read, times)


@pytest.mark.long
@more_times
@pytest.mark.parametrize(
    "file", [WEIGHTS, "config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja", INDEX]
)
def test_a_policy_that_is_loaded_and_says_something(file: str, times: int, policy: Path) -> None:
    if file == INDEX:
        in_shards(policy)
    inputs, put = mutated(policy / file)

    def say() -> None:
        model, tokenizer = load_policy(policy)
        chat = ChatFormat(tokenizer, "Be kind.")
        sampler = TransformersSampler(model, chat.end_of_turn, 1.0, 1.0, rows=1, capacity=400)
        sampler.start()
        sample = asyncio.run(sampler.sample(SampleRequest("d", tuple(chat.start("Hello")), 1, 2)))
        chat.decode(sample.token_ids).encode("utf-8", "surrogatepass")

    def read(content: bytes) -> None:
        put(content)
        say()

    torch.set_num_threads(1)
    say()  # what the first time imports is not timed
    fuzz(inputs, read, times, some_refused=file != "generation_config.json")  # transformers goes on without one that it cannot read


@times
@pytest.mark.parametrize("file", [ARRAYS, FACTS, f"{CARD}.json"])
def test_learned_appraisers(file: str, times: int, tmp_path: Path) -> None:
    folder = appraiser_in(tmp_path / "appraiser")
    if file == ARRAYS:  # as older folders are, which do not say which arrays are theirs: else every change is found at once
        facts = json.loads((folder / FACTS).read_text())
        del facts["arrays"]
        (folder / FACTS).write_text(json.dumps(facts))
    inputs, put = mutated(folder / file)

    def read(content: bytes) -> None:
        put(content)
        read_folder.cache_clear()
        if file.startswith(CARD):
            json.dumps(fidelity_of(folder))
        else:
            appraise_once(folder)

    fuzz(inputs, read, times)


@times
def test_the_shape_of_a_model_for_its_memory(times: int, policy: Path) -> None:
    from rlver.components.training.memory import shape_of

    inputs, put = mutated(policy / "config.json")

    def read(content: bytes) -> None:
        put(content)
        assert shape_of(load._object(policy / "config.json")).parameters > 0

    fuzz(inputs, read, times)
