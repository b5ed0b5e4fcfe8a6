"""Loading and saving a policy: Hugging Face folders, safetensors only, no remote code, and every weight from the folder's files.

transformers puts random numbers where a file lacks a tensor, casts integers to weights, follows an adapter to whatever base it names and
only warns. Here each of these is an error of one line that names the file: `_check_files` looks before any library reads the folder, the
names and shapes are compared on torch's meta device before any memory is taken, and the numbers must be finite.
"""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES
from transformers.utils import logging

from rlver.components.domain.kinds import ModelSource
from rlver.components.domain.printable import first_line
from rlver.components.domain.registry import MODELS
from rlver.components.policy.chat import must_chat
from rlver.components.policy.weights import put_in_place
from rlver.components.weights.sources.model import of_hub

logging.disable_progress_bar()  # type: ignore[no-untyped-call]  # one bar per loaded or saved folder would drown the stage's own progress
_warnings: Any = logging.get_logger("transformers.modeling_utils")
_warnings.addFilter(lambda record: record.levelno >= logging.ERROR)  # they are errors here

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
MOST_HEADER = 16 * 2**20  # bytes of the JSON that begins a safetensors file; a shard of the largest models has half of one of these MiB
MOST_JSON, MOST_OTHER_JSON = {"tokenizer.json": 64 * 2**20, "tekken.json": 64 * 2**20, INDEX: 32 * 2**20}, 4 * 2**20  # bytes
_FLOATS = {"F64", "F32", "F16", "BF16"}
_ELSEWHERE = {  # keys of config.json that make transformers read or run something else than the folder's plain weights
    "quantization_config": "quantised weights cannot be trained or compared; take the model as it was before",
    "transformers_weights": f"the weights must be in {WEIGHTS}, or in the files of {INDEX}",
}
_LAYERS = re.compile(r"(?:num|n)_(?:\w*_)?layers?")
_SHOWN = 3  # tensors that a message names


def load_policy(path: Path | str, device: str | None = None, may_open_thoughts: bool = False) -> tuple[Any, Any]:
    """(model, tokenizer) of a local folder or a hub name, in float32: in bfloat16 an update of 1e-6 would leave most weights as they are.

    Raises ValueError in one line when there is no model at `path`, a broken one, or none that was made for conversation. Whoever only passes its
    text on says `may_open_thoughts`: its chat template may then write the first tag of a thought itself.
    """
    model, tokenizer = load_model(path, device=device)
    must_chat(path, tokenizer, may_open_thoughts)
    return model, tokenizer


def load_model(path: Path | str, dtype: torch.dtype | str = torch.float32, device: str | None = None) -> tuple[Any, Any]:
    """The same of any causal language model, whether it was made for conversation or not; dtype "auto" is the folder's own.
    `device` None: the GPU, where there is one."""
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    torch.backends.cuda.enable_cudnn_sdp(False)  # it plans anew for each number of rows and keys, in every thread
    folder, tokenizer = _checked(path)
    try:
        model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, use_safetensors=True, trust_remote_code=False)
        model = model.to(device)
    except Exception as error:  # as in `_checked`
        raise ValueError(_cannot_load(path, error)) from error
    head, embedding = model.get_output_embeddings(), model.get_input_embeddings()
    if model.config.tie_word_embeddings and head is not None and head.weight is not embedding.weight:
        raise ValueError(f"{path}: config.json ties the head to the embeddings, but the weights have two that differ; correct one of them")
    refuse_not_finite(model, path)
    return model, tokenizer


def check_policy(path: Path | str) -> Any:
    """The tokenizer of a policy that another program loads, after everything was checked that needs no weights in memory."""
    tokenizer = _checked(path)[1]
    must_chat(path, tokenizer)
    return tokenizer


def refuse_not_finite(model: Any, path: Path | str) -> None:
    """Raise ValueError for the first weight of a model from `path` that is infinite or no number."""
    for name, weight in model.state_dict().items():
        if weight.is_floating_point() and weight.numel() and not all(math.isfinite(end) for end in torch.aminmax(weight)):
            raise ValueError(f"{path}: the tensor {name} has numbers that are not finite: the model is broken; take another copy of it")


def check_context(model: Any, max_context_tokens: int) -> None:
    """Raise ValueError when the model cannot read as many tokens: it would go on, and say nothing sensible."""
    positions = getattr(model.config, "max_position_embeddings", None)
    if positions is not None and max_context_tokens > positions:
        raise ValueError(f"policy.max_context_tokens is {max_context_tokens}, but the model reads {positions} tokens at most; lower it")


def save_policy(model: Any, tokenizer: Any, path: Path, like: Path | None = None) -> None:
    """Write weights (safetensors), configuration, tokenizer and chat template; `path` holds a whole policy, as `put_in_place` says.
    `like`: the folder that the model came from, whose number format is kept; without it the model's own is.
    """
    if like is not None:
        model.to(_dtype_of(like))
    part = path.with_name(f".{path.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    try:
        part.mkdir(parents=True)
        model.save_pretrained(part, safe_serialization=True)
        tokenizer.save_pretrained(part)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    put_in_place(part, path)


def _dtype_of(folder: Path) -> torch.dtype:
    """The number format that config.json names; float32 where it names none."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    named = config.get("dtype") or config.get("torch_dtype")
    return {"bfloat16": torch.bfloat16, "float16": torch.float16}.get(str(named), torch.float32)


def located(path: Path | str) -> Path:
    """The folder of a model on this machine: `path` itself, SOURCE:NAME of a registered source, else NAME[@REVISION] of the hub, fetched.

    Raises ValueError in one line when there is no such model.
    """
    source, name = _source(path)
    if source is not None and "@" in name and not Path(name).exists():
        raise ValueError(f"a revision is for names of the hub, and {source}: has none; write it without @{name.rpartition('@')[2]}")
    try:
        kind: ModelSource | None = MODELS.load(source) if source else None
        return kind.folder(name, None) if kind else of_hub(name)
    except Exception as error:  # a source is anybody's code, and the hub's client has errors of its own
        raise ValueError(_cannot_load(path, error)) from error


def origin_of(path: Path | str) -> str | None:
    """Name and version of the package whose source the model comes from; None for folders, the hub and this project's sources."""
    source, _ = _source(path)
    return MODELS.origin(source) if source else None


def _source(path: Path | str) -> tuple[str | None, str]:
    """(source, name) of SOURCE:NAME; no source for a folder or a name of the hub."""
    source, _, name = str(path).partition(":")
    return (source, name) if name and not Path(path).is_dir() and MODELS.has(source) else (None, str(path))


def _checked(path: Path | str) -> tuple[Path, Any]:
    """(folder, tokenizer) at `path`, whose weights have the names and shapes that the configuration asks for. Raises ValueError."""
    folder = located(path)
    try:
        files = _check_files(folder)
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        reported: Any = AutoModelForCausalLM.from_pretrained(
            folder,
            dtype=torch.float32,
            device_map="meta",
            use_safetensors=True,
            trust_remote_code=False,
            ignore_mismatched_sizes=True,
            output_loading_info=True,
        )
        shapes, found = reported
        _refuse_other_tensors(found, files)
        asked = shapes.config.architectures
        if asked and type(shapes).__name__ not in asked:
            raise ValueError(
                f"config.json asks for {', '.join(asked)}, which is no {type(shapes).__name__}: no policy, or not a whole one; "
                "take another copy of the model"
            )
        _refuse_other_tokens(tokenizer, shapes.get_input_embeddings().weight.shape[0])
    except Exception as error:  # the libraries raise whatever comes of a malformed file: TypeError, KeyError, their own
        raise ValueError(_cannot_load(path, error)) from error
    return folder, tokenizer


def _check_files(folder: Path) -> list[Path]:
    """The files of the weights, once nothing in the folder leads a library elsewhere or makes it work without end. Raises ValueError."""
    if (folder / "adapter_config.json").exists():
        raise ValueError("adapter_config.json: adapters alone are no policy; merge them into their base and save that")
    for file in folder.glob("*.json"):
        if not file.is_file() or file.stat().st_size > MOST_JSON.get(file.name, MOST_OTHER_JSON):
            raise ValueError(f"{file.name}: no file, or larger than any that belongs to a model")
    config = _object(folder / "config.json")
    values = list(_values(config))
    for key, value in values:
        if key in _ELSEWHERE:
            raise ValueError(f"config.json: {key}: {_ELSEWHERE[key]}")
        if key.endswith("attn_implementation") and "/" in str(value):
            raise ValueError(f"config.json: {key} asks for code of its own ({value}), which is never run")
    kind = config.get("model_type")
    if not isinstance(kind, str) or kind not in CONFIG_MAPPING_NAMES:
        raise ValueError(f"config.json: transformers itself knows no model_type {kind!r}; code of a model is never run")
    files = _weight_files(folder)
    names = {name for file in files for name in _tensors(file)}
    for key, value in values:
        if _LAYERS.fullmatch(key) and isinstance(value, int) and value > len(names):
            raise ValueError(f"config.json: {key} is {value}, more than the {len(names)} tensors that there are")
    return files


def _weight_files(folder: Path) -> list[Path]:
    """model.safetensors, or the files that its index names, all of them in `folder`."""
    if (folder / WEIGHTS).is_file():
        return [folder / WEIGHTS]
    if not (folder / INDEX).is_file():
        other = next((file.name for file in sorted(folder.glob("*.bin"))), None)
        instead = f"; {other} may hold code and is never read: convert it, or take a copy with safetensors" if other else ""
        raise ValueError(f"no {WEIGHTS} there{instead}")
    places = _object(folder / INDEX).get("weight_map")
    if not isinstance(places, dict) or not places:
        raise ValueError(f"{INDEX}: weight_map must say which file holds each tensor")
    for name in places.values():
        if not isinstance(name, str) or not re.fullmatch(r"[\w.-]+\.safetensors", name):
            raise ValueError(f"{INDEX}: weights are in safetensors files beside it, got {name!r}")
    files = [folder / name for name in sorted(set(places.values()))]
    for file in files:
        if not file.is_file():
            raise ValueError(f"{INDEX}: {file.name} is missing; copy the whole folder")
    return files


def _tensors(file: Path) -> list[str]:
    """The names of the tensors in a safetensors file. Raises ValueError unless its weights are plain floating point."""
    with file.open("rb") as opened:
        length = int.from_bytes(opened.read(8), "little")
    if length > min(MOST_HEADER, file.stat().st_size):
        raise ValueError(f"{file.name}: no safetensors, or cut off: its header would have {length} bytes")
    try:
        with safe_open(file, framework="pt") as tensors:
            names = list(tensors.keys())
            kinds = {name: tensors.get_slice(name).get_dtype() for name in names}
    except Exception as error:  # SafetensorError, and what its reader raises of a damaged file
        raise ValueError(f"{file.name}: {error}") from error
    for name, kind in kinds.items():
        if name.endswith((".weight", ".bias")) and kind not in _FLOATS:
            raise ValueError(f"{file.name}: the tensor {name} is {kind}, expected one of {', '.join(sorted(_FLOATS))}")
    return names


def _refuse_other_tensors(found: dict[str, Any], files: list[Path]) -> None:
    """Raise ValueError unless the files hold just the tensors that the configuration asks for. A tied head counts as there."""
    where = files[0].name if len(files) == 1 else INDEX
    for what, names in (
        ("lacks", sorted(found["missing_keys"])),
        ("holds in another shape", sorted(f"{name} ({list(there)}, not {list(asked)})" for name, there, asked in found["mismatched_keys"])),
        ("holds what config.json does not ask for:", sorted(found["unexpected_keys"])),
        ("cannot be read:", list(found["error_msgs"])),
    ):
        if names:
            more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
            raise ValueError(f"{where} {what} {', '.join(names[:_SHOWN])}{more}; the copy is damaged, or config.json is another model's")


def _refuse_other_tokens(tokenizer: Any, embeddings: int) -> None:
    """Raise ValueError when the tokenizer can give a token that the model has no embedding for, or cannot end a turn."""
    highest = max(tokenizer.get_vocab().values(), default=-1)
    if not 0 <= highest < embeddings:
        raise ValueError(f"the tokenizer's ids go to {highest}, the model has {embeddings} embeddings; they do not belong together")
    if tokenizer.eos_token_id is None:
        raise ValueError("the tokenizer has no end token (eos_token), so nobody could tell where a reply ends; take another model")


def _object(file: Path) -> dict[str, Any]:
    """The JSON object in `file`. Raises ValueError."""
    if not file.is_file():
        raise ValueError(f"{file.name} is missing; copy the whole folder")
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file.name}: not valid JSON ({error})") from error
    if not isinstance(found, dict):
        raise ValueError(f"{file.name}: expected a JSON object, got {type(found).__name__}")
    return found


def _values(config: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Every key of a configuration and of the configurations in it, with its value."""
    for key, value in config.items():
        yield key, value
        if isinstance(value, dict):
            yield from _values(value)


def _cannot_load(path: Path | str, error: Exception) -> str:
    return f"cannot load a policy from {path}: {first_line(error)}"
