"""Reports: JSON, tables, bars and pages, from stored records only."""
