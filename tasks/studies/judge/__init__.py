"""A language model as judge of whole dialogues, by rubrics of our own."""
