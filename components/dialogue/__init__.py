"""Dialogues: what one is, how one is run, how many are run at once."""
