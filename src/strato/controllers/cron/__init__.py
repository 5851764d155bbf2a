"""Cron jobs, Volcano's and Kubernetes'. The two make different jobs and different messages, but run at the same times.

`schedule` parses schedules, `plan` decides without reading or writing anything, `variants` holds what differs between
the two kinds, `controller` reads and writes.
"""

from strato.controllers.cron.controller import KubeCronController, VolcanoCronController

__all__ = ["KubeCronController", "VolcanoCronController"]
