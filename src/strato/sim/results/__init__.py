"""What a simulated run was: its record in columns, and what is computed from it (reports, tables, plots, files)."""
