"""Reports from stored records: JSON, tables, bars and HTML."""
