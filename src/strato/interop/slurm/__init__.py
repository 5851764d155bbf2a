"""Format jobs, nodes and queues as Slurm's commands do, so that its users' scripts can parse the output.

`jobs` and `nodes` turn objects into records whose fields have Slurm's names; `formats` prints records as ``squeue -o``,
``sinfo -o`` and ``sacct --format`` do, to the byte, `pages` as ``scontrol show``; `texts` formats times and lists of
hosts. All functions are pure. ``strato submit`` reads batch scripts, as sbatch does.
"""
