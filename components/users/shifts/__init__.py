"""Shifts: the same user in other words or with another story, each named and versioned."""
