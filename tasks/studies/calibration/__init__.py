"""How demanding the users are, beside the published figures."""
