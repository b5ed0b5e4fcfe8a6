"""What the stage `score` measures: Sentient-Benchmark, the portrait, and the statistics to compare policies."""
