"""Dialogues: how one is run, how many are run at once, and the files they end in."""
