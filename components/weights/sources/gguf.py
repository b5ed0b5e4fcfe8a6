"""A model in one GGUF file (`gguf:FILE`): its numbers as plain float32, in a Hugging Face folder that is made once and kept.

transformers reads the file, with the package `gguf`, once gguf_header.py has found nothing wrong in front of the numbers; quantised numbers are what they stand for afterwards, so the folder can be trained. What
was lost when they were quantised stays lost: scores of the same model from the hub are a little better.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rlver.components.domain.kinds import ModelSource
from rlver.components.domain.packages import SUMS, cache_folder, remove_left_behind, sha256_of
from rlver.components.domain.printable import first_line
from rlver.components.weights.gguf_header import MAGIC, GgufHeader, read_header

_VERSION = "2"  # of this conversion: another one gets another folder
_UNSCALED = {".rope.scaling.type": "none", ".rope.scaling.factor": 1, ".rope.scale_linear": 1}


def of_file(name: str, parameters: Any = None) -> Path:
    """The Hugging Face folder of the GGUF file at path `name`. Raises ValueError in one line for a file that is none, or a damaged one."""
    path = Path(name)
    try:
        with path.open("rb") as opened:
            begins = opened.read(4)
    except OSError as error:
        raise ValueError(f"gguf:{name}: {error.strerror or error}") from error
    if begins != MAGIC:
        raise ValueError(f"gguf:{name}: no GGUF file: it does not begin with {MAGIC.decode()}; name another file")
    return converted(path, sha256_of(path))


def converted(path: Path, sha256: str) -> Path:
    """The folder that was made of the file at `path` with this hash, now or before."""
    folder = cache_folder() / "models" / f"{path.stem}-{sha256[:12]}-{_VERSION}"
    if folder.is_dir():
        return folder
    if find_spec("gguf") is None:
        raise ValueError(f"{path.name}: reading GGUF files needs the package gguf: pip install 'rlver[train]'")
    header = read_header(path)
    if int(header.values.get("split.count", 1)) > 1:
        raise ValueError(f"{path.name}: one part of a model in several files; merge them first: llama-gguf-split --merge FIRST_PART OUT")
    folder.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".part-"))
    try:
        remove_left_behind(part, ".part-*")
        _convert(path, header, part)
        sums = {file.name: sha256_of(file) for file in sorted(part.iterdir())}
        (part / SUMS).write_text(json.dumps(sums, indent=2) + "\n", encoding="utf-8")
        try:
            part.rename(folder)
        except OSError:
            if not folder.is_dir():  # or another process was faster
                raise
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return folder


def _convert(path: Path, header: GgufHeader, part: Path) -> None:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        _refuse_scaled(header)
        _refuse_other_count(AutoConfig.from_pretrained(path.parent, gguf_file=path.name, trust_remote_code=False), header)
        causal: Any = AutoModelForCausalLM
        read, found = causal.from_pretrained(
            path.parent, gguf_file=path.name, dtype=torch.float32, use_safetensors=True, trust_remote_code=False, output_loading_info=True
        )
        if found["missing_keys"]:  # transformers would start them afresh
            raise ValueError(f"it has no tensor for {min(found['missing_keys'])}: damaged, or its names are another program's")
        tokenizer: Any = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name, trust_remote_code=False)
    except Exception as error:  # the reader raises whatever comes of a malformed file
        remedy = "take another model" if "not supported" in str(error) else "download it again"
        raise ValueError(f"{path.name}: cannot be read as a model: {first_line(error)[:300]}; {remedy}") from error
    if not tokenizer.chat_template:
        raise ValueError(f"{path.name}: it has no chat template, so it is no chat model; take its Instruct or Chat version")
    values = {key: value for key, value in read.config.to_dict().items() if key not in ("quantization_config", "_name_or_path")}
    plain = type(read)(type(read.config).from_dict(values))  # a model that still knows it was quantised refuses to be saved
    plain.load_state_dict(read.state_dict())
    plain.tie_weights()
    plain.save_pretrained(part)
    tokenizer.save_pretrained(part)


def _refuse_scaled(header: GgufHeader) -> None:
    """Raise ValueError for scaled positions (Llama 3.1 and later): transformers would read the model as one without."""
    scaled = [tensor.name for tensor in header.tensors if tensor.name.startswith(("rope_freqs", "rope_factors"))]
    scaled += [key for key, value in header.values.items() for end, none in _UNSCALED.items() if key.endswith(end) and value != none]
    if scaled:
        raise ValueError(f"its positions are scaled ({scaled[0][:100]}), which is not supported")


def _refuse_other_count(config: Any, header: GgufHeader) -> None:
    """Raise ValueError unless a model of this configuration has as many numbers as the file: transformers makes up or leaves out the others."""
    import torch
    from transformers import AutoModelForCausalLM

    blocks = len({tensor.name.split(".")[1] for tensor in header.tensors if tensor.name.startswith("blk.")})
    layers = getattr(config, "num_hidden_layers", 0)
    if layers > blocks:
        raise ValueError(f"it asks for {layers} layers and has {blocks}")
    causal: Any = AutoModelForCausalLM
    with torch.device("meta"):
        weights = causal.from_config(config, trust_remote_code=False).state_dict(keep_vars=True).values()
    asked = sum({id(weight): weight.numel() for weight in weights}.values())  # tied ones once
    there = sum(tensor.elements for tensor in header.tensors)
    if asked > there:
        raise ValueError(f"it asks for {asked} numbers and has {there}: damaged, or the header is another model's")
    if asked < there:
        raise ValueError(f"it has {there} numbers, and transformers reads {asked} of them: a model with parts that are not supported")


SOURCE = ModelSource(of_file)
