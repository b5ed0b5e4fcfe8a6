"""What the `rlver` command does with files."""
