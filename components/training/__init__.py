"""Reinforcement learning on dialogues: what each token is credited with, and GRPO on TRL."""
