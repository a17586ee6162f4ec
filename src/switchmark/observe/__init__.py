"""The observation of hosts: CPUs, threads, counters and noise. These modules only read."""
