"""People compare two policies without knowing which is which: the page, the answers, and what they say."""
