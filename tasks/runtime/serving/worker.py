"""Our part inside vLLM's worker process: take over the weights of a folder, all of them or none.

Runs in vLLM's environment and imports nothing of this project. vLLM mixes this class into its own worker
(`--worker-extension-cls worker.TakesWeights`) and calls it over /collective_rpc while generation is paused.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any


class TakesWeights:
    """Mixed into vLLM's worker, which has `model_runner` and `reload_weights`."""

    model_runner: Any
    reload_weights: Any

    def take_weights(self, folder: str, version: str) -> str:
        """Load the safetensors of `folder` in place and return their version, or in its place what is wrong: an exception would end the
        server. The version must be `version` before and after, so that a server with another disk, or a folder somebody writes to,
        cannot pass for the weights that were meant."""
        try:
            self._must_be(folder, version)
            self.reload_weights(weights_path=folder)
            self._renew_tied_head()
            self._must_be(folder, version)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return version

    def version_here(self, folder: str) -> str:
        """Of the adapters that vLLM itself is to load, before and after."""
        return version_of(folder)

    def _renew_tied_head(self) -> None:
        """On a CPU the head multiplies with a packed copy of its weights, which a reload renews only where they are its own."""
        model = self.model_runner.get_model()
        head = getattr(model, "lm_head", None)
        if head is None or not hasattr(head, "cpu_linear") or not getattr(model.config, "tie_word_embeddings", False):
            return
        if hasattr(head, "_already_called_process_weights_after_loading"):
            del head._already_called_process_weights_after_loading
        head.quant_method.process_weights_after_loading(head)

    def _must_be(self, folder: str, version: str) -> None:
        if (found := version_of(folder)) != version:
            raise RuntimeError(f"expected weights {version}, found {found}: the server must see the same disk, and nobody may write there")


def version_of(folder: str) -> str:
    """Names the weights in `folder` and when they were written; the same function is in components/policy/weights.py."""
    files = sorted(Path(folder).glob("*.safetensors"))
    return f"{folder}@{max((file.stat().st_mtime_ns for file in files), default='nothing')}"
