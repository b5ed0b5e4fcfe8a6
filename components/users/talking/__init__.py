"""The talking user: tells the scripted user's stories as people talk, and hints at its need in words that depend on the split."""
