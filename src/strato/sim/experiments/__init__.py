"""Experiments: runs each policy under each variant and seed, in parallel processes, and compares them; sweeps.

`file` reads an experiment's file into an `Experiment` of `plan`, `sweep` makes one from a grid of parameters. `pool`
runs it on this machine, `dask` on a Dask cluster; `results` sums up, `page` writes the report.
"""
