"""What touches the machine: paths are brought up, proved, measured and taken down."""
