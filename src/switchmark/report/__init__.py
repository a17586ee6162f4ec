"""This package makes reports from stored records only: JSON, tables, bars and pages."""
