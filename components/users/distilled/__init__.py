"""The learned appraiser as it is used: loaded from a folder, deterministic, offline."""
