"""Honesty study: right and wrong answers, agreement, and what the user told."""
