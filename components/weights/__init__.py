"""Weights from elsewhere: out of a pinned package, a GGUF file or the hub, checked and in the format of transformers."""
