"""How a policy supports people, beyond its score: capabilities, cognition, strategies, acceptance and behaviour, from transcripts alone."""
