"""``strato slurm``: Slurm's commands, with the flags and columns that its users' scripts rely on.

sbatch is ``strato submit``. The commands show and change Volcano Jobs of one namespace; `strato.interop.slurm` formats
what they print.
"""

from __future__ import annotations

import click

from strato.cli.slurm.accounting import sacct
from strato.cli.slurm.control import scancel, scontrol
from strato.cli.slurm.queues import sinfo, squeue
from strato.cli.slurm.running import salloc, srun
from strato.cli.slurm.wrappers import install
from strato.cli.submit import submit


@click.group()
def slurm() -> None:
    """Slurm's commands; 'strato slurm install DIR' makes them commands of those names."""


slurm.add_command(submit, "sbatch")
for _command in (squeue, scancel, sinfo, srun, salloc, scontrol, sacct, install):
    slurm.add_command(_command)
