"""Measuring a policy: Sentient-Benchmark scores, strategies, general capability, and the statistics to compare two policies."""
