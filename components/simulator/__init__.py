"""The simulated user: an appraiser that re-appraises its emotion after every reply, and a speaker that says the next message."""
