"""JobFlows: graphs of Volcano Jobs made from JobTemplates.

`build` makes a step's job, `status` counts the flow's jobs and decides its phase, and `probes` finds out whether a
running job is ready for the steps after it; `controller` reads and writes. `templates` is the controller of
JobTemplates, which lists the jobs made from each.
"""

from strato.controllers.flow.controller import JobFlowController
from strato.controllers.flow.probes import NetworkProber
from strato.controllers.flow.templates import JobTemplateController

__all__ = ["JobFlowController", "JobTemplateController", "NetworkProber"]
