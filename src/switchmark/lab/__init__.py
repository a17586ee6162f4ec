"""Everything that acts on the hosts for a test: it builds the path, checks it, measures, and takes
the path down."""
