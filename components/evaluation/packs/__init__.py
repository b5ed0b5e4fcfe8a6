"""Task packs for the lm-eval harness that need no network: items, their generators and the harness' task descriptions."""
