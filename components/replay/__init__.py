"""Recorded dialogues once more: every emotion re-derived, replies appraised again, second opinions."""
