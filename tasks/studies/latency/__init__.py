"""What a reply costs in time, and what of it is thinking."""
