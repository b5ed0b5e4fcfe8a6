"""The embedded user: deterministic, English, no model. Appraises by rules that can be read, speaks from the persona."""
