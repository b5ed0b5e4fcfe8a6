"""Policies as logged models: each once, by DVC's MD5, for `mlflow models serve` and pyfunc to talk with and for `mlflow.transformers` to load.

A logged model is the policy's own folder (safetensors) under artifacts/policy, the code that talks with it (chat_model.py and the few files
of components/policy that it needs) and the sampling parameters of its variant. Nothing is pickled. MLflow's own classes for chat models
load the model once while it is *saved*; a plain PythonModel with a chat signature does not, and a model of 15 GB need not fit here.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rlver import components
from rlver.tasks.runtime.language import ENGLISH
from rlver.tasks.tracking.records import LANGUAGE, File, StageRecord
from rlver.tasks.tracking.store import Store

if TYPE_CHECKING:
    from mlflow.entities import LoggedModel
    from mlflow.models import ModelSignature

LogModels = Literal["full", "reference"]
UPLOAD_S = 1800  # for a file of a model
_CODE = (
    "__init__.py",
    "domain",
    "policy/__init__.py",
    "policy/chat.py",
    "policy/load.py",
    "policy/weights.py",
    "weights/__init__.py",
    "weights/sources/__init__.py",
    "weights/sources/model.py",
)
_LIBRARIES = ("mlflow", "torch", "transformers", "accelerate", "safetensors", "jinja2", "pydantic")


def link(store: Store, run: str, record: StageRecord, log_models: LogModels) -> list[LoggedModel]:
    """Tie a run to the models that it made, logging those that are new, and to those that it used; returns all of them."""
    from mlflow.entities import LoggedModelInput, LoggedModelOutput

    made = [_logged(store, run, file, record, log_models) for file in record.models]
    used = [model for file in record.models_read for model in known(store, file.md5, log_models)]
    there = store.client.get_run(run)
    outputs = {model.model_id for model in (there.outputs.model_outputs if there.outputs else ())}
    inputs = {model.model_id for model in (there.inputs.model_inputs if there.inputs else ())}
    if new := [model for model in made if model.model_id not in outputs]:
        store.client.log_outputs(run, [LoggedModelOutput(model.model_id, step=0) for model in new])
    if new := [model for model in used if model.model_id not in inputs]:
        store.client.log_inputs(run, models=[LoggedModelInput(model.model_id) for model in new])
    return [*made, *used]


def known(store: Store, md5: str, log_models: LogModels) -> list[LoggedModel]:
    """The logged model of this MD5, if all of it is there."""
    ready = _of_md5(store, md5, "READY")
    return [model for model in ready if log_models == "reference" or model.tags.get("log_models") == "full"][:1]


def _of_md5(store: Store, md5: str, status: str) -> list[LoggedModel]:
    found = store.client.search_logged_models([store.experiment], f"tags.md5 = '{md5}'")
    return [model for model in found if str(model.status) == status]


def _logged(store: Store, run: str, file: File, record: StageRecord, log_models: LogModels) -> LoggedModel:
    for model in known(store, file.md5, log_models):
        return model
    tags = {"md5": file.md5, "dvc_path": file.name, "log_models": log_models}
    if begun := _of_md5(store, file.md5, "PENDING"):  # an upload that broke off goes on: another model would be a second copy
        model = begun[0]
        store.client.set_logged_model_tags(model.model_id, tags)
    else:
        model = store.client.create_logged_model(
            store.experiment, name=name_of(file.path.name), source_run_id=run, tags=tags, model_type="dialogue policy"
        )
    if log_models == "full":
        with _patient(), tempfile.TemporaryDirectory() as folder:
            store.client.log_model_artifacts(model.model_id, str(file.path), "artifacts/policy")
            config = speaking({**record.parameters, **record.speaking}, file.path.name)
            save_without_weights(Path(folder) / "model", model.model_id, config)
            if (file.path / "config.json").is_file():  # what transformers reads first; a model of another kind is one file, say
                _add_transformers(Path(folder) / "model", file.path)
            store.client.log_model_artifacts(model.model_id, str(Path(folder) / "model"))
    return store.client.finalize_logged_model(model.model_id, "READY")


@contextmanager
def _patient() -> Iterator[None]:
    """Inside, a request may take UPLOAD_S: a server that passes a file on to a store of its own answers when all of it is there."""
    from mlflow.environment_variables import MLFLOW_HTTP_REQUEST_TIMEOUT

    timeout: Any = MLFLOW_HTTP_REQUEST_TIMEOUT
    before = timeout.get()
    timeout.set(max(before, UPLOAD_S))
    try:
        yield
    finally:
        timeout.set(before)


def name_of(policy: str) -> str:
    """As MLflow takes it: these characters it refuses in the name of a logged model."""
    return re.sub(r"[/:.%\"']", "_", policy)


def speaking(parameters: Mapping[str, str], name: str) -> dict[str, Any]:
    """How the policy talks when a request does not say otherwise, by the parameters of its stage and its variant; empty where they are not known."""
    if "policy.thinking" not in parameters:
        return {}
    kinds: dict[str, type] = {"temperature": float, "top_p": float, "max_reply_tokens": int, "max_context_tokens": int}
    found = {key: kind(parameters[f"policy.{key}"]) for key, kind in kinds.items() if f"policy.{key}" in parameters}
    return found | {
        "thinking": parameters["policy.thinking"] == "True",
        "language": parameters.get(LANGUAGE, ENGLISH),
        "seed": int(parameters.get("seed", 0)),
        "name": name,
    }


def save_without_weights(folder: Path, model_id: str | None, config: dict[str, Any]) -> None:
    """Write an MLflow model to `folder`, complete but for the files of artifacts/policy."""
    import mlflow
    from mlflow.models import Model

    own = Path(str(components.__file__)).parent
    with tempfile.TemporaryDirectory() as place, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for name in _CODE:
            target = Path(place) / "rlver" / "components" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if (own / name).is_dir():
                shutil.copytree(own / name, target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copyfile(own / name, target)
        weights = Path(place) / "policy"
        weights.mkdir()
        mlflow.pyfunc.save_model(
            path=str(folder),
            python_model=str(Path(__file__).with_name("chat_model.py")),
            artifacts={"policy": str(weights)},
            code_paths=[str(Path(place) / "rlver")],
            model_config=config,
            signature=chat_signature(),
            pip_requirements=[f"{name}=={version(name).partition('+')[0]}" for name in _LIBRARIES],
            mlflow_model=Model(model_id=model_id),
            metadata={"task": "llm/v1/chat"},
        )


def _add_transformers(folder: Path, policy: Path) -> None:
    """Let `mlflow.transformers` load the same weights: MLflow's own way of saving them would read all of them first.

    It looks for the tokenizer in a folder of its own, so the small files of `policy` are there twice.
    """
    from mlflow.models import Model

    tokenizer = folder / "components" / "tokenizer"
    tokenizer.mkdir(parents=True)
    for path in policy.iterdir():
        if path.is_file() and path.suffix not in (".safetensors", ".gguf", ".bin"):
            shutil.copyfile(path, tokenizer / path.name)
    model = Model.load(str(folder))
    model.add_flavor(
        "transformers",
        transformers_version=version("transformers"),
        task="text-generation",
        instance_type="TextGenerationPipeline",
        pipeline_model_type="AutoModelForCausalLM",
        tokenizer_type="AutoTokenizer",
        components=["tokenizer"],
        model_binary="artifacts/policy",
    )
    model.save(str(folder / "MLmodel"))


def chat_signature() -> ModelSignature:
    """Messages in, a chat completion out; a request may set temperature, max_tokens and seed."""
    from mlflow.models import ModelSignature
    from mlflow.types.schema import Array, ColSpec, DataType, Object, Property, Schema

    message = Object([Property("role", DataType.string), Property("content", DataType.string)])
    choice = Object([Property("index", DataType.long), Property("message", message), Property("finish_reason", DataType.string)])
    options = (("temperature", DataType.double), ("max_tokens", DataType.long), ("seed", DataType.long))
    return ModelSignature(
        inputs=Schema([ColSpec(Array(message), "messages"), *(ColSpec(kind, name, required=False) for name, kind in options)]),
        outputs=Schema([ColSpec("string", "object"), ColSpec("string", "model"), ColSpec(Array(choice), "choices")]),
    )
