"""The policy: how it is prompted, how its thoughts are split off, what samples from it, and the tiny model of the embedded default."""
