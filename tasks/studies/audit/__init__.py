"""Is the score earned or gamed? Transcripts, training logs and the user itself, examined for the known tricks."""
