"""Is the score earned or gamed? Transcripts, training logs and the simulator itself, examined for the known tricks."""
