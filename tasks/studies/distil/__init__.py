"""Learning an appraiser from recorded dialogues, and measuring how far it agrees with them."""
