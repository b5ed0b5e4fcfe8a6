"""Studies: each is one room with its method and its command. The path from personas to the report imports none."""
