"""The hosts that run commands: the local host, hosts reached by ssh, and a recording host for
tests."""
