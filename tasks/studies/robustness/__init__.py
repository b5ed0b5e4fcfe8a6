"""Does a score hold for users who speak otherwise?"""
