"""The words of the method, and nothing that does work: transcripts, the emotion rules, the protocols of policies and users, files."""
