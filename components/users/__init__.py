"""Simulated users: an appraiser that re-appraises the emotion after every reply, and a speaker that says the next message."""
