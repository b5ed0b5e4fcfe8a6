"""The paper run: all variants, seeds and users beside the published results."""
