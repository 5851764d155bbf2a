"""Experiments on how full nodes are: trainings beside services, with and without what fills nodes further."""
