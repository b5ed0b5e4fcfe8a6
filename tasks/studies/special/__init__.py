"""Users of a kind: how well the signs in replies to them are found, and how a policy meets people in danger."""
