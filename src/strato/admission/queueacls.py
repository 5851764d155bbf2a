"""Enforces access lists of queues: who may submit to a queue, and who may change or delete others' work in it.

A queue without a list, whose ancestors have none either, is open to every user who may create objects (RBAC). Otherwise
a list of the queue or of an ancestor must name the user or one of the user's groups (spec yarn A1: access at any
ancestor suffices). Administrators of a queue may submit to it. An annotation on the object records the submitter, who
may change the object later.

The lists do not apply to the cluster's own components: they create objects on behalf of users whose workloads, pod
templates included, were judged here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from strato.admission.queue_reads import ROOT, parent_of
from strato.admission.request import AdmissionReader, AdmissionRequest, Json, Operation
from strato.api import catalog, queueacls
from strato.api.defaults.jobs import DEFAULT_QUEUE
from strato.api.frameworks import BY_KIND
from strato.api.kinds import Kind
from strato.api.queueacls import ADMINISTER, SUBMIT, SUBMITTED_BY
from strato.api.volcano.scheduling import POD_GROUP_ANNOTATIONS, QUEUE_ANNOTATION
from strato.api.wire import User
from strato.errors import Forbidden

PART_NAMESPACES: Final = ("kube-system", "volcano-system")
"""Namespaces whose service accounts are the cluster's own components, unless the installation uses others."""
_TRUSTED: Final = ("system:masters", "system:nodes")
"""Groups of administrators and of nodes."""
_KUBERNETES: Final = "system:kube-"
"""Prefix of the users of Kubernetes' own components."""
_PARTS: Final = frozenset(("strato:controllers", "strato:hollow-nodes", "strato:scheduler", "strato:webhook"))
"""Users of Strato's components in the embedded cluster."""

_DEFAULTED: Final[Mapping[Kind, tuple[str, ...]]] = {
    catalog.VCJOB: ("spec",),
    catalog.VCCRONJOB: ("spec", "jobTemplate", "spec"),
    catalog.JOBTEMPLATE: ("spec",),
    catalog.PODGROUP: ("spec",),
}
"""Path of the object that has the member ``queue``, by kind; without that member the queue is ``default``."""

KINDS: Final = (
    *_DEFAULTED,
    catalog.JOBFLOW,
    *BY_KIND,
    catalog.TRAINJOB,
    catalog.POD,
    catalog.DEPLOYMENT,
    catalog.REPLICASET,
    catalog.REPLICATIONCONTROLLER,
    catalog.STATEFULSET,
    catalog.DAEMONSET,
    catalog.JOB,
    catalog.CRONJOB,
)
"""Kinds of work that is submitted to queues."""
NOTE: Final = "/queueacls/mutate"
JUDGE: Final = "/queueacls/validate"
"""Paths of the services; they are off unless ``--enabled-admission`` names them."""
WEBHOOK: Final = "queueacls.strato.dev"

_MOST_LEVELS: Final = 64
_MOST_DEPTH: Final = 64
_MOST_OWNERS: Final = 4
"""Longest chain of controllers that is followed: a pod, its Job, the Job's TrainJob, and one more."""


def trusted_groups(namespaces: Iterable[str]) -> frozenset[str]:
    """Return the groups to whose members the lists do not apply; components of the cluster run in ``namespaces``."""
    return frozenset((*_TRUSTED, *(f"system:serviceaccounts:{namespace}" for namespace in namespaces)))


_BY_DEFAULT: Final = trusted_groups(PART_NAMESPACES)


def is_trusted(user: User | None, groups: frozenset[str] = _BY_DEFAULT) -> bool:
    """Whether the lists do not apply to writes of a user."""
    if user is None or not groups.isdisjoint(user.groups):
        return True
    return user.name in _PARTS or user.name.startswith(_KUBERNETES)


@dataclass(frozen=True, slots=True)
class NoteSubmitter:
    """Records the submitter on new work for a queue that has a list; later writes cannot change the record."""

    trusted: frozenset[str] = _BY_DEFAULT

    def __call__(self, request: AdmissionRequest, reader: AdmissionReader) -> None:
        """Set or restore the annotation with the submitter, in place."""
        if request.object is not None and request.user is not None and not is_trusted(request.user, self.trusted):
            _note_submitter(request, request.object, request.user, reader)


@dataclass(frozen=True, slots=True)
class JudgeAccess:
    """Refuses writes that the lists of queues do not allow the user."""

    trusted: frozenset[str] = _BY_DEFAULT

    def __call__(self, request: AdmissionRequest, reader: AdmissionReader) -> None:
        """Judge a write of work, of a queue or of a command.

        Raises:
            Forbidden: A list names neither the user nor one of the user's groups.
        """
        user = request.user
        if user is None or is_trusted(user, self.trusted):
            return
        if request.kind is catalog.QUEUE:
            _judge_queue(request, user, reader)
        elif request.kind is catalog.COMMAND:
            _judge_command(request, user, reader)
        else:
            _judge_work(request, user, reader)


def _note_submitter(request: AdmissionRequest, obj: Json, user: User, reader: AdmissionReader) -> None:
    if request.operation == Operation.CREATE:
        listed = any(_lists(queue, reader) for queue in queues_of(request.kind, obj, reader))
        noted = user.name if listed else None
    else:
        noted = _annotations(request.old_object).get(SUBMITTED_BY)
    metadata = obj["metadata"]
    if noted is not None:
        if not metadata.get("annotations"):
            metadata["annotations"] = {}
        metadata["annotations"][SUBMITTED_BY] = noted
    elif SUBMITTED_BY in _annotations(obj):
        del metadata["annotations"][SUBMITTED_BY]


def _judge_work(request: AdmissionRequest, user: User, reader: AdmissionReader) -> None:
    old, new = request.old_object, request.object
    before = queues_of(request.kind, old, reader) if old is not None else ()
    if old is not None and _submitter(old, reader) != user.name:
        _require(user, before, reader, "change or delete what others submitted to it", ADMINISTER)
    if new is not None:
        entered = [queue for queue in queues_of(request.kind, new, reader) if queue not in before]
        _require(user, entered, reader, "submit to it", SUBMIT)


def check_lists(request: AdmissionRequest, reader: AdmissionReader) -> None:
    """Refuse a queue with malformed lists, all at once.

    Raises:
        Forbidden: See above.
    """
    if request.object is not None:
        noted = _annotations(request.object)
        problems = [
            f"metadata.annotations[{key}]: {found}"
            for key in (SUBMIT, ADMINISTER)
            if (found := queueacls.problem(noted.get(key, "")))
        ]
        if problems:
            raise Forbidden(f"queue {request.name}: {'; '.join(problems)}")


def _judge_queue(request: AdmissionRequest, user: User, reader: AdmissionReader) -> None:
    touched = {request.name} if request.old_object is not None else set()
    parents = {parent_of(queue) for queue in (request.object, request.old_object) if queue is not None}
    if request.old_object is None or len(parents) > 1:  # the queue is new, or moves to another parent
        touched |= parents - {""}
    _require(user, sorted(touched), reader, "change it", ADMINISTER)


def _judge_command(request: AdmissionRequest, user: User, reader: AdmissionReader) -> None:
    command = request.object or {}
    target = command.get("target") or {}
    name = target.get("name") or ""
    if target.get("kind") == catalog.QUEUE.name:
        _require(user, [name], reader, "open or close it", ADMINISTER)
    elif target.get("kind") == catalog.VCJOB.name:
        job = reader.get(catalog.VCJOB, request.namespace, name)
        if job is not None and _submitter(job, reader) != user.name:
            queues = queues_of(catalog.VCJOB, job, reader)
            _require(user, queues, reader, "command what others submitted to it", ADMINISTER)


def queues_of(kind: Kind, obj: Json, reader: AdmissionReader) -> tuple[str, ...]:
    """Return the queues that an object's work goes to: by its member ``queue``, and by annotations anywhere in it."""
    found: dict[str, None] = {}
    if kind in _DEFAULTED:
        spec = _at(obj, _DEFAULTED[kind])
        found[spec.get("queue") or DEFAULT_QUEUE] = None
    elif kind in BY_KIND:
        policy = _at(obj, ("spec", "runPolicy", "schedulingPolicy"))
        found[policy.get("queue") or _annotations(obj).get(QUEUE_ANNOTATION) or DEFAULT_QUEUE] = None
    for used, name in _used(kind, obj):
        read = reader.get(used, obj["metadata"].get("namespace") or "", name)
        if read is not None:
            found.update(dict.fromkeys(queues_of(used, read, reader)))
    found.update(dict.fromkeys(_named(obj, _MOST_DEPTH)))
    return tuple(found)


def references(kind: Kind, obj: Json) -> list[tuple[Kind, str]]:
    """Return the other objects that the rules read: those an object uses, a command's target, its controller."""
    found = _used(kind, obj)
    if kind is catalog.COMMAND and _at(obj, ("target",)).get("kind") == catalog.VCJOB.name:
        found.append((catalog.VCJOB, _at(obj, ("target",)).get("name") or ""))
    controller = _controller(obj)
    return [*found, controller] if controller is not None else found


def _controller(obj: Json) -> tuple[Kind, str] | None:
    """Return an object's controller, if that is of a kind that is submitted to queues."""
    for owner in obj["metadata"].get("ownerReferences") or ():
        kind = catalog.find_named(owner.get("apiVersion") or "", owner.get("kind") or "")
        if owner.get("controller") and kind in KINDS:
            return kind, owner.get("name") or ""
    return None


def _used(kind: Kind, obj: Json) -> list[tuple[Kind, str]]:
    """Return the templates of a flow, or the groups of a pod, whose queues are the object's queues too."""
    if kind is catalog.JOBFLOW:
        flows = _at(obj, ("spec",)).get("flows") or ()
        return [(catalog.JOBTEMPLATE, flow.get("name") or "") for flow in flows]
    if kind is catalog.POD:
        noted = _annotations(obj)
        names = dict.fromkeys(noted[key] for key in POD_GROUP_ANNOTATIONS if noted.get(key))
        return [(catalog.PODGROUP, name) for name in names]
    return []


def _submitter(obj: Json, reader: AdmissionReader) -> str:
    """Return the submitter recorded on an object, or on the nearest controller above it; "" without a record."""
    for _ in range(_MOST_OWNERS):
        if noted := _annotations(obj).get(SUBMITTED_BY):
            return noted
        controller = _controller(obj)
        if controller is None:
            break
        above = reader.get(controller[0], obj["metadata"].get("namespace") or "", controller[1])
        if above is None:
            break
        obj = above
    return ""


def _named(part: object, depth: int) -> Iterator[str]:
    """Yield the queues that annotations anywhere in an object name: its own, its templates' and its patches'."""
    if depth == 0:
        return
    if isinstance(part, dict):
        annotations = part.get("annotations")
        if isinstance(annotations, dict) and isinstance(queue := annotations.get(QUEUE_ANNOTATION), str) and queue:
            yield queue
        for member in part.values():
            yield from _named(member, depth - 1)
    elif isinstance(part, list):
        for item in part:
            yield from _named(item, depth - 1)


def _require(user: User, queues: Iterable[str], reader: AdmissionReader, to: str, key: str) -> None:
    """Refuse if, for a queue, lists of type ``key`` exist and neither they nor administrators' lists name the user."""
    for queue in queues:
        lists = _lists(queue, reader)
        holders = [holder for holder, kept in lists if kept == key]
        if not holders or any(one.admits(user) for (_, kept), one in lists.items() if kept in (key, ADMINISTER)):
            continue
        groups = f" (groups: {', '.join(user.groups)})" if user.groups else ""
        raise Forbidden(
            f"queue {queue}: user {user.name}{groups} may not {to}; named are only those of "
            + ", ".join(f"{key} of queue {holder}" for holder in holders)
            + "; ask an administrator of the queue"
        )


def _lists(queue: str, reader: AdmissionReader) -> dict[tuple[str, str], queueacls.AccessList]:
    """Return the lists of a queue and its ancestors, by the name of the queue and the annotation."""
    found: dict[tuple[str, str], queueacls.AccessList] = {}
    name = queue
    for _ in range(_MOST_LEVELS):
        stored = reader.get(catalog.QUEUE, "", name)
        if stored is None and name != ROOT:
            break  # other rules refuse work for an unknown queue
        noted = _annotations(stored)
        found.update({(name, key): queueacls.parse(noted[key]) for key in (SUBMIT, ADMINISTER) if key in noted})
        if stored is None or name == ROOT:
            break
        name = parent_of(stored)
    return found


def _annotations(obj: Json | None) -> Mapping[str, str]:
    return ((obj or {}).get("metadata") or {}).get("annotations") or {}


def _at(obj: Json, path: tuple[str, ...]) -> Json:
    for member in path:
        obj = obj.get(member) or {}
    return obj
