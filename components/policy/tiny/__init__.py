"""The embedded policy: a from-scratch Qwen2-architecture model warm-started on dialogues of mostly poor supporters."""
