"""How well the scripted appraiser reads dialogue acts in free English."""
