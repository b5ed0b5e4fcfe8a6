"""Reinforcement learning on dialogues: what each token is credited with, GRPO and PPO on TRL, and the bridge to verl."""
