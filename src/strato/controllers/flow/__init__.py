"""JobFlows: graphs of Volcano Jobs made from JobTemplates.

`build` makes a step's job, `status` counts and decides the phase, `probes` asks running jobs whether they are ready
for others to start; `controller` reads and writes. `templates` keeps the list of jobs made from a template.
"""

from strato.controllers.flow.controller import JobFlowController
from strato.controllers.flow.probes import NetworkProber
from strato.controllers.flow.templates import JobTemplateController

__all__ = ["JobFlowController", "JobTemplateController", "NetworkProber"]
