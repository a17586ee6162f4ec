"""From a test to what is built for it: topology, parts, nodes, tasks, plan. Pure."""
