"""Decisions about what to build for a test: topology, parts, nodes, tasks and plan. This package is
pure: it touches no host."""
