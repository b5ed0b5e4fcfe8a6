"""What touches the world: processes, services, trackers, stages."""
