"""What a finished dialogue is worth in training, one module a reward: `REWARD`, chosen by reward.kind by the module's name."""
