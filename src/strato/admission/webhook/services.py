"""The services of the webhook, one path each (spec volcano-api 15)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from strato.admission import nodes, queueacls, queueplacement, recommendations, trainingjobs, trainjobs
from strato.admission.request import Operation
from strato.api import catalog
from strato.api.kinds import Kind
from strato.errors import UsageError

_CREATE, _UPDATE, _DELETE = Operation.CREATE, Operation.UPDATE, Operation.DELETE


@dataclass(frozen=True, slots=True)
class WebhookService:
    """One path of the webhook: the kinds and operations it handles, and its name in refusals."""

    path: str
    webhook: str
    kind: Kind
    operations: tuple[Operation, ...]
    subresource: str = ""
    timeout_seconds: int = 10
    others: tuple[Kind, ...] = ()
    """Further kinds it handles."""

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """All kinds it handles."""
        return (self.kind, *self.others)

    @property
    def mutates(self) -> bool:
        """Whether it mutates objects; other services validate them."""
        return self.path.endswith("/mutate")

    @property
    def configuration(self) -> str:
        """Name of the webhook configuration that sends requests here."""
        return "volcano-admission-service" + self.path.replace("/", "-")


SERVICES: dict[str, WebhookService] = {
    service.path: service
    for service in (
        WebhookService("/jobs/mutate", "mutatejob.volcano.sh", catalog.VCJOB, (_CREATE, _UPDATE)),
        WebhookService("/jobs/validate", "validatejob.volcano.sh", catalog.VCJOB, (_CREATE, _UPDATE)),
        WebhookService("/podgroups/mutate", "mutatepodgroup.volcano.sh", catalog.PODGROUP, (_CREATE,)),
        WebhookService("/podgroups/validate", "validatepodgroup.volcano.sh", catalog.PODGROUP, (_CREATE,)),
        WebhookService("/queues/mutate", "mutatequeue.volcano.sh", catalog.QUEUE, (_CREATE, _UPDATE)),
        WebhookService("/queues/validate", "validatequeue.volcano.sh", catalog.QUEUE, (_CREATE, _UPDATE, _DELETE)),
        WebhookService("/pods/mutate", "mutatepod.volcano.sh", catalog.POD, (_CREATE,)),
        WebhookService("/pods/validate", "validatepod.volcano.sh", catalog.POD, (_CREATE,)),
        WebhookService(
            recommendations.PATH, "mutatepodrecommended.strato.dev", catalog.POD, (_CREATE,), timeout_seconds=2
        ),
        WebhookService("/hypernodes/validate", "validatehypernode.volcano.sh", catalog.HYPERNODE, (_CREATE, _UPDATE)),
        WebhookService("/jobflows/validate", "validatejobflow.volcano.sh", catalog.JOBFLOW, (_CREATE, _UPDATE)),
        WebhookService("/cronjobs/validate", "validatecronjob.volcano.sh", catalog.VCCRONJOB, (_CREATE, _UPDATE)),
        WebhookService(
            "/nodes/mutate", "mutatenode.strato.dev", catalog.NODE, (_UPDATE,), subresource="status", timeout_seconds=2
        ),
        WebhookService("/nodes/validate", nodes.WEBHOOK, catalog.NODE, (_CREATE, _UPDATE), timeout_seconds=2),
        *(
            WebhookService(path, trainingjobs.webhook_of(framework), framework.kind, (_CREATE, _UPDATE))
            for path, framework in trainingjobs.SERVICES.items()
        ),
        *(
            WebhookService(path, trainjobs.webhook_of(kind), kind, (_CREATE, _UPDATE))
            for path, kind in trainjobs.SERVICES.items()
        ),
        WebhookService(
            queueplacement.PATH,
            queueplacement.WEBHOOK,
            queueplacement.KINDS[0],
            (_CREATE,),
            others=queueplacement.KINDS[1:],
        ),
        WebhookService(
            queueacls.NOTE,
            f"note.{queueacls.WEBHOOK}",
            queueacls.KINDS[0],
            (_CREATE, _UPDATE),
            others=queueacls.KINDS[1:],
        ),
        WebhookService(
            queueacls.JUDGE,
            f"judge.{queueacls.WEBHOOK}",
            queueacls.KINDS[0],
            (_CREATE, _UPDATE, _DELETE),
            others=(*queueacls.KINDS[1:], catalog.QUEUE, catalog.COMMAND),
        ),
    )
}
"""Every service by its path."""


def parse_enabled(texts: Sequence[str], off: Collection[Kind] = ()) -> tuple[WebhookService, ...]:
    """Return the services that ``--enabled-admission`` names; blanks are ignored, nothing named is none.

    Services of kinds that are off are left out, because other software handles these objects.

    Raises:
        UsageError: A path is not one of ours.
    """
    paths = [path.strip() for text in texts for path in text.split(",") if path.strip()]
    unknown = [path for path in paths if path not in SERVICES]
    if unknown:
        raise UsageError(
            f"--enabled-admission: {', '.join(map(repr, unknown))} is no admission service; "
            f"known: {', '.join(SERVICES)}"
        )
    return tuple(SERVICES[path] for path in dict.fromkeys(paths) if SERVICES[path].kind not in off)
