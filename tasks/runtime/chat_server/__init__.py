"""`rlver serve policy`: a policy of this project behind an OpenAI-compatible chat address."""
