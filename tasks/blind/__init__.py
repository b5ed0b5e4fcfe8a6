"""`rlver blind`: a web page on this machine on which people compare two policies without knowing which is which."""
