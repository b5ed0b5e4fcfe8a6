"""The commands of `rlver`, by subject. Each module's imports are those of typer alone; the rest is imported when a command runs."""
