"""Predicts what a cluster will do, by running a copy of its state forward in virtual time.

`forward` runs a copy; `whatif` compares it with a copy that has changes, `when` draws run times to predict when waiting
jobs start. The scheduler's own cycle decides on the copies. Of these modules only `whenpublishing` writes to a cluster:
it publishes the predictions.
"""
