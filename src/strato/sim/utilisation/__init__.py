"""Experiments on node utilisation: trainings beside services, with or without overcommitment and the like."""
