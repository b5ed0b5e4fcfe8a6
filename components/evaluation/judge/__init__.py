"""A language model as judge of whole dialogues: five capabilities and the cognition map, by rubrics of our own."""
