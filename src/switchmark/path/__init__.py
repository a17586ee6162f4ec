"""This package decides what is built for a test: its topology, parts, nodes, tasks and plan. It is
pure: it touches no host."""
