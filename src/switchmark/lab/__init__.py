"""This package does what touches the host: paths are brought up, proved, measured and taken
down."""
