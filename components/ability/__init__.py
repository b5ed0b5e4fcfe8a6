"""What the stage `benchmark` measures: general ability through lm-eval, and whether any of it was lost."""
