"""Cron jobs: Volcano's and Kubernetes', which differ in the jobs they make and in words, not in when they run.

`schedule` reads what cron understands, `plan` decides without reading or writing anything, `flavours` holds what
differs between the two kinds, `controller` reads and writes.
"""

from strato.controllers.cron.controller import KubeCronController, VolcanoCronController

__all__ = ["KubeCronController", "VolcanoCronController"]
