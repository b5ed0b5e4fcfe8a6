"""What verifiers looks for under the id `rlver-verifiers`; the code is in rlver.components.adapters.verifiers."""

from rlver.components.adapters.verifiers import SupportEnv, SupportTaskset

__all__ = ["SupportEnv", "SupportTaskset"]
