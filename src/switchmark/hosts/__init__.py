"""Where commands run: this host, others by ssh, and what records them."""
