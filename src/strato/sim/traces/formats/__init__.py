"""The formats of traces, one file each: how a format is recognised, and how its lines become jobs and machines."""
