"""What stages and commands need of the machine: environment, connections, processes, servers, checkpoints."""
