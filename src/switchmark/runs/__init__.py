"""What a run does to hosts, and undoes."""
