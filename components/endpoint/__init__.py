"""OpenAI-compatible chat endpoints."""
