"""Slurm's commands as its users' scripts know them: what jobs, nodes and queues are called there, and how they look.

`jobs` and `nodes` turn objects into records whose fields have Slurm's names; `formats` prints records as ``squeue -o``,
``sinfo -o`` and ``sacct --format`` do, to the byte, `pages` as ``scontrol show``; `texts` has times and lists of
hosts. All is pure. Batch scripts are read elsewhere: ``strato submit`` is sbatch.
"""
