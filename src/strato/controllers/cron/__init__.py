"""Cron jobs: Volcano's and Kubernetes', which differ in the jobs they make and in their messages, not in when they run.

`schedule` parses schedules, `plan` decides without reading or writing anything, `variants` holds what differs between
the two kinds, `controller` reads and writes.
"""

from strato.controllers.cron.controller import KubeCronController, VolcanoCronController

__all__ = ["KubeCronController", "VolcanoCronController"]
