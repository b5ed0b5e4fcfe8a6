"""Our benchmark tasks as a task folder of lm-eval: `lm_eval --include_path components/ability/harness --tasks rlver_tiny_choice …`."""
