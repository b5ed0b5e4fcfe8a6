"""params.yaml with the overlays of a variant on top, checked."""
