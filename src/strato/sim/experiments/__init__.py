"""Experiments: policies × variants × seeds over one trace, in processes beside one another; sweeps."""
