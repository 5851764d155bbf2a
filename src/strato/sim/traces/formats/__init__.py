"""One file per format of traces: how it is recognised, and how its lines become jobs and machines."""
