"""Files of others: recorded SAGE dialogues, chats of any usual shape, RLVER profiles. Training never needs them."""
