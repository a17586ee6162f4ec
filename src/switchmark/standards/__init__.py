"""Standards of benchmarks, clause by clause: what they ask for, and what records of runs answer."""
