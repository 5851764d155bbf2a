"""The chain: Kubernetes' own plug-ins, then Volcano's mutations, then Volcano's validations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import FunctionType

from strato.admission import (
    cronjobs,
    hypernodes,
    jobflows,
    jobs,
    kube,
    limitranges,
    nodes,
    podgroups,
    podresize,
    pods,
    podsecurity,
    queueacls,
    queueplacement,
    queues,
    recommendations,
    trainingjobs,
    trainjobs,
    unenforced,
)
from strato.admission.request import AdmissionReader, AdmissionRequest, Dependencies, Json, Operation
from strato.api import catalog
from strato.api.kinds import Kind
from strato.api.malformed import malformed
from strato.api.pods import MIRROR
from strato.api.wire import User

ALL_WEBHOOKS = (
    "/jobs/mutate",
    "/jobs/validate",
    "/podgroups/mutate",
    "/podgroups/validate",
    "/pods/mutate",
    "/pods/validate",
    "/queues/mutate",
    "/queues/validate",
    "/hypernodes/validate",
    "/jobflows/validate",
    "/cronjobs/validate",
    "/nodes/mutate",
    "/nodes/validate",
    *trainingjobs.SERVICES,
    *trainjobs.SERVICES,
)
"""Paths of the services that are on unless ``--enabled-admission`` says otherwise."""


_COVERS = {
    "/jobs/validate": catalog.VCJOB,
    "/queues/validate": catalog.QUEUE,
    "/jobflows/validate": catalog.JOBFLOW,
    "/cronjobs/validate": catalog.VCCRONJOB,
}
"""By service path, the kind of which the service enforces every rule of its definition, and more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainOptions:
    """Options of the chain."""

    enabled: frozenset[str] = frozenset(ALL_WEBHOOKS)
    """Volcano's services that are on, by path."""

    scheduler_names: tuple[str, ...] = ("volcano",)
    """Schedulers whose pods and jobs are Volcano's; the first is the default of jobs."""

    built_in_plugins: bool = True
    """Whether Kubernetes' own plug-ins run too; off behind a webhook, where the API server has its own."""

    mount_service_account_tokens: bool = False
    """Whether pods get the projected ``kube-api-access`` volume, as they do where the server issues tokens."""

    max_queue_depth: int = 5
    """Levels of queues below root. Range [1, 64]."""

    protect_root_queue: bool = True
    """Whether resources of the queue ``root`` may not be changed."""

    check_allocated_pods_on_delete: bool = False
    """Whether a queue with allocated pods may not be deleted."""

    part_namespaces: tuple[str, ...] = queueacls.PART_NAMESPACES
    """Namespaces whose service accounts are the cluster's own components; queues' access lists do not apply to them."""

    resource_groups: tuple[pods.ResourceGroup, ...] | None = None
    """The admission configuration; None when no file is loaded."""

    queue_placement: queueplacement.QueuePlacement | None = None
    """Rules that choose the queue of users' new work; None leaves it in the queue that it names."""

    queue_limits: queueplacement.QueueLimits | None = None
    """Limits on the amount of users' work in each queue, applied with these rules; None for no limit."""


_WORKLOADS = (
    catalog.DEPLOYMENT,
    catalog.REPLICASET,
    catalog.STATEFULSET,
    catalog.DAEMONSET,
    catalog.JOB,
    catalog.CRONJOB,
    catalog.PODTEMPLATE,
    catalog.REPLICATIONCONTROLLER,
    catalog.VCJOB,
)
"""Kinds with pod templates."""

_DEPENDENCIES: Mapping[object, Dependencies] = {
    kube.PodDefaults: Dependencies(
        (catalog.LIMITRANGE, catalog.SERVICEACCOUNT, catalog.PRIORITYCLASS, catalog.RUNTIMECLASS),
        (kube.is_no_mirror,),
        annotations=frozenset((MIRROR,)),
    ),
    limitranges.check_pod: Dependencies((catalog.LIMITRANGE,)),
    recommendations.recommend: Dependencies(
        annotations=recommendations.ANNOTATIONS, absent=(catalog.VERTICALPODAUTOSCALER,)
    ),
    pods.queue_gate: Dependencies(fits=(pods.needs_no_gate,), annotations=frozenset((pods.GATE,))),
    pods.PodValidation: Dependencies(fits=(pods.budget_fits,), annotations=pods.BUDGETS),
    podsecurity.validate_pod: Dependencies((catalog.NAMESPACE,), (podsecurity.has_no_profile_annotations,)),
    podsecurity.validate_workload: Dependencies((catalog.NAMESPACE,)),
    unenforced.warn: Dependencies(fits=(unenforced.says_nothing,)),
    jobs.JobDefaults: Dependencies(),
    jobs.validate_create: Dependencies(
        (catalog.QUEUE,), (jobs.metadata_fit,), (jobs.name_fits,), jobs.READ_ANNOTATIONS
    ),
    podgroups.mutate: Dependencies((catalog.NAMESPACE,)),
    podgroups.validate: Dependencies((catalog.QUEUE,)),
    queueplacement.PlaceInQueue: Dependencies(users=(queueacls.is_trusted,)),
    queueacls.NoteSubmitter: Dependencies(users=(queueacls.is_trusted,)),
    queueacls.JudgeAccess: Dependencies(users=(queueacls.is_trusted,)),
}
"""What each rule about new objects depends on, for kinds that are created by the thousand. While a kind has a rule that
is missing here, no result is reused for it."""

Step = Callable[[AdmissionRequest, AdmissionReader], None]


Steps = dict[tuple[Kind, str], list[Step]]
"""Rules by kind and operation; an operation on a subresource is written like ``UPDATE/resize``."""


@dataclass(slots=True)
class Chain:
    """Admits writes: `mutate`, then the server validates, then `validate`. Holds only its options; safe to share."""

    options: ChainOptions = field(default_factory=ChainOptions)
    _mutations: Steps = field(init=False, repr=False)
    _validations: Steps = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._mutations, self._validations = _plan(self.options)

    @property
    def covers(self) -> frozenset[Kind]:
        """Kinds whose CEL rules the server need not evaluate: the chain enforces them, in Volcano's wording."""
        return frozenset(kind for path, kind in _COVERS.items() if path in self.options.enabled)

    def mutate(self, request: AdmissionRequest, reader: AdmissionReader) -> None:
        """Apply all mutations to the request's object, in place.

        Raises:
            Denied: A Volcano rule refuses the request.
            Forbidden: A built-in plug-in refuses the request.
            BadRequest: A field has the wrong JSON type.
        """
        _run(self._mutations, request, reader)

    def validate(self, request: AdmissionRequest, reader: AdmissionReader) -> None:
        """Refuse a request that breaks a rule; changes nothing. Raises as `mutate` does."""
        _run(self._validations, request, reader)

    def has_rules(self, kind: Kind, operation: str) -> bool:
        """Return whether there is any rule for an operation on a kind."""
        step = (kind, operation)
        return step in self._mutations or step in self._validations

    def has_rules_for(self, user: User | None, kind: Kind, operation: str) -> bool:
        """Return whether any of these rules applies to writes of a user."""
        return any(
            known is None or not known.users or not all(says_nothing(user) for says_nothing in known.users)
            for known in self._declared((kind, operation))
        )

    def dependencies(self, kind: Kind) -> Dependencies | None:
        """Return what admission of new objects of a kind depends on besides their specs; None if that is unknown."""
        found = self._declared((kind, Operation.CREATE.value))
        if None in found:
            return None
        all_of_them = [one for one in found if one is not None]
        return Dependencies(
            tuple(dict.fromkeys(read for one in all_of_them for read in one.reads)),
            tuple(fits for one in all_of_them for fits in one.fits),
            tuple(fits for one in all_of_them for fits in one.by_name),
            frozenset(annotation for one in all_of_them for annotation in one.annotations),
            tuple(says_nothing for one in all_of_them for says_nothing in one.users),
            tuple(absent for one in all_of_them for absent in one.absent),
        )

    def _declared(self, step: tuple[Kind, str]) -> list[Dependencies | None]:
        return [
            _DEPENDENCIES.get(one if isinstance(one, FunctionType) else type(one))
            for one in (*self._mutations.get(step, ()), *self._validations.get(step, ()))
        ]

    def admit(self, request: AdmissionRequest, reader: AdmissionReader) -> Json:
        """Mutate and validate; return the object as it may be stored (the old one on DELETE)."""
        self.mutate(request, reader)
        self.validate(request, reader)
        result = request.object if request.object is not None else request.old_object
        assert result is not None
        return result


def _run(steps: Steps, request: AdmissionRequest, reader: AdmissionReader) -> None:
    operation = f"{request.operation}/{request.subresource}" if request.subresource else request.operation
    try:
        for step in steps.get((request.kind, operation), ()):
            step(request, reader)
    except (AttributeError, TypeError, KeyError, IndexError) as err:
        raise malformed(request.kind, request.object) from err


def _plan(options: ChainOptions) -> tuple[Steps, Steps]:
    """Return the mutations and the validations that run for each kind and operation."""
    create, update, delete = Operation.CREATE, Operation.UPDATE, Operation.DELETE
    resize, debug = f"{update}/resize", f"{update}/ephemeralcontainers"
    mutations: Steps = {}
    validations: Steps = {}

    def add(steps: Steps, kind: Kind, operations: tuple[str, ...], step: Step) -> None:
        for operation in operations:
            steps.setdefault((kind, str(operation)), []).append(step)

    if options.built_in_plugins:
        pod_defaults = kube.PodDefaults(mount_tokens=options.mount_service_account_tokens)
        add(mutations, catalog.POD, (create,), pod_defaults)
        add(mutations, catalog.POD, (update,), kube.keep_tolerations)
        add(mutations, catalog.PRIORITYCLASS, (create, update), kube.one_default_priority_class)
        add(mutations, catalog.PERSISTENTVOLUMECLAIM, (create,), kube.default_storage_class)
        add(mutations, catalog.PERSISTENTVOLUMECLAIM, (create,), kube.protect_claim)
        add(mutations, catalog.PERSISTENTVOLUME, (create,), kube.protect_volume)
        add(validations, catalog.PERSISTENTVOLUMECLAIM, (update,), kube.check_expansion)
        add(validations, catalog.PERSISTENTVOLUMECLAIM, (create, update), limitranges.limit_claim)
        add(validations, catalog.NAMESPACE, (create, update), podsecurity.validate_namespace)
        add(mutations, catalog.POD, (resize,), limitranges.default_pod)
        add(validations, catalog.POD, (create, resize), limitranges.check_pod)
        add(validations, catalog.POD, (resize,), podresize.check_capacity)
        add(validations, catalog.POD, (create, update, debug), podsecurity.validate_pod)
        for workload in _WORKLOADS:
            add(validations, workload, (create, update), podsecurity.validate_workload)
        for kind in (*unenforced.KINDS, *unenforced.FIELDS):
            add(validations, kind, (create,) if kind is catalog.POD else (create, update), unenforced.warn)
    on = options.enabled
    if options.built_in_plugins or recommendations.PATH in on:
        add(mutations, catalog.POD, (create,), recommendations.recommend)
    if "/jobs/mutate" in on:
        add(mutations, catalog.VCJOB, (create, update), jobs.JobDefaults(options.scheduler_names))
    if "/jobs/validate" in on:
        add(validations, catalog.VCJOB, (create,), jobs.validate_create)
        add(validations, catalog.VCJOB, (update,), jobs.validate_update)
    if "/podgroups/mutate" in on:
        add(mutations, catalog.PODGROUP, (create,), podgroups.mutate)
    if "/podgroups/validate" in on:
        add(validations, catalog.PODGROUP, (create,), podgroups.validate)
    if "/pods/mutate" in on:
        add(mutations, catalog.POD, (create,), pods.queue_gate)
        if options.resource_groups is not None:
            add(mutations, catalog.POD, (create,), pods.ResourceGroups(groups=options.resource_groups))
    if "/pods/validate" in on:
        add(validations, catalog.POD, (create,), pods.PodValidation(options.scheduler_names))
    if "/queues/mutate" in on:
        add(mutations, catalog.QUEUE, (create, update), queues.mutate)
    if "/queues/validate" in on:
        rules = queues.QueueRules(
            max_depth=options.max_queue_depth,
            protect_root=options.protect_root_queue,
            check_allocated_pods=options.check_allocated_pods_on_delete,
        )
        add(validations, catalog.QUEUE, (create, update), rules.validate)
        add(validations, catalog.QUEUE, (delete,), rules.validate_delete)
    if "/hypernodes/validate" in on:
        add(validations, catalog.HYPERNODE, (create, update), hypernodes.validate)
    if "/jobflows/validate" in on:
        add(validations, catalog.JOBFLOW, (create, update), jobflows.validate)
    if "/cronjobs/validate" in on:
        add(validations, catalog.VCCRONJOB, (create, update), cronjobs.validate)
    if "/nodes/mutate" in on:
        add(mutations, catalog.NODE, (f"{update}/status",), nodes.amplify)
    if "/nodes/validate" in on:
        add(validations, catalog.NODE, (create, update, f"{update}/status"), nodes.validate)
    trusted = queueacls.trusted_groups(options.part_namespaces)
    if options.queue_placement is not None and (options.built_in_plugins or queueplacement.PATH in on):
        placing = queueplacement.PlaceInQueue(options.queue_placement, trusted, options.queue_limits)
        for kind in queueplacement.KINDS:
            add(mutations, kind, (create,), placing)
    if options.built_in_plugins or queueacls.NOTE in on:
        for kind in queueacls.KINDS:
            add(mutations, kind, (create, update), queueacls.NoteSubmitter(trusted))
    if options.built_in_plugins or queueacls.JUDGE in on:
        for kind in (*queueacls.KINDS, catalog.QUEUE, catalog.COMMAND):
            add(validations, kind, (create, update, delete), queueacls.JudgeAccess(trusted))
        add(validations, catalog.QUEUE, (create, update), queueacls.check_lists)
    for path, framework in trainingjobs.SERVICES.items():
        if path in on:
            add(validations, framework.kind, (create, update), trainingjobs.validate)
    for path, kind in trainjobs.SERVICES.items():
        if path in on:
            rule = trainjobs.validate_job if kind is catalog.TRAINJOB else trainjobs.validate_runtime
            add(validations, kind, (create, update), rule)
    return mutations, validations
