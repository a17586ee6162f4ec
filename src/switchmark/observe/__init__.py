"""What a host shows; it reads only."""
