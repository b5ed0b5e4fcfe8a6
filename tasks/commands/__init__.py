"""The commands of `rlver` that are no flows: a typed function each, which imports what it needs when it is called, so that --help answers at once."""
