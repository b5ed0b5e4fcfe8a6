"""New scenarios and personas, written by a language model and taken only when they pass every check."""
