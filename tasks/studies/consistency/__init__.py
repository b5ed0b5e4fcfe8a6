"""Does an appraiser hold to its own word?"""
