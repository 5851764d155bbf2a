"""Rules of training jobs that their schema cannot state (spec training A5 and L).

They check a job before defaulting, as its user wrote it, and return all problems.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from strato.api import names
from strato.api.frameworks import OTHER_OPERATORS, WORKER, Framework
from strato.api.meta import Json
from strato.api.names import LABEL_MAX
from strato.api.status import forbidden_field, invalid_value, not_supported, required
from strato.errors import Cause

_MANAGED_BY: Final = "spec.runPolicy.managedBy"
_IMMUTABLE: Final = "field is immutable"
NPROC_WARNING: Final = "spec.elasticPolicy.nProcPerNode is deprecated, use spec.nprocPerNode instead"


def validate(framework: Framework, job: Json, old: Json | None = None) -> list[Cause]:
    """Return the problems of a job, and of its change from ``old``."""
    spec = job.get("spec") or {}
    name = (job.get("metadata") or {}).get("name") or ""
    replicas: Mapping[str, Json | None] | None = spec.get(framework.replica_map)
    causes = [invalid_value("metadata.name", name, f"should match: {text}") for text in names.check_label_1035(name)]
    if not causes and replicas:
        causes += _long_names(framework, name, replicas)
    causes += _managed_by(framework, spec, old)
    field = f"spec.{framework.replica_map}"
    if replicas is None:
        return [*causes, required(field, "must be required")]
    for role, replica in sorted(replicas.items()):
        causes += _role(framework, f"{field}[{role}]", role, replica or {})
    return [*causes, *_leaders(framework, field, replicas), *_elastic(framework, field, spec)]


def warnings(spec: Json) -> Iterator[str]:
    """Yield warnings about an accepted job."""
    if (spec.get("elasticPolicy") or {}).get("nProcPerNode") is not None:
        yield NPROC_WARNING


def _long_names(framework: Framework, name: str, replicas: Mapping[str, Json | None]) -> Iterator[Cause]:
    """Yield causes for names that are too long for pods' services, whose names must be DNS labels."""
    for role, replica in replicas.items():
        count = (replica or {}).get("replicas")
        longest = framework.object_name(name, role, max(0, (1 if count is None else count) - 1))
        if len(longest) > LABEL_MAX and role in framework.roles:
            text = f"the name of its pod {longest} would be longer than {LABEL_MAX} characters; shorten it"
            yield invalid_value("metadata.name", name, text)
            return


def _managed_by(framework: Framework, spec: Json, old: Json | None) -> Iterator[Cause]:
    value = (spec.get("runPolicy") or {}).get("managedBy")
    known = (framework.manager, *OTHER_OPERATORS)
    if value is not None and value not in known:
        yield not_supported(_MANAGED_BY, value, known)
    yield from kept_manager(spec, old)


def kept_manager(spec: Json, old: Json | None) -> Iterator[Cause]:
    """Yield a cause if ``managedBy`` has changed: a job cannot be handed to another controller."""
    value = (spec.get("runPolicy") or {}).get("managedBy")
    if old is not None and value != ((old.get("spec") or {}).get("runPolicy") or {}).get("managedBy"):
        yield invalid_value(_MANAGED_BY, value, _IMMUTABLE)


def _role(framework: Framework, field: str, role: str, replica: Json) -> Iterator[Cause]:
    if role not in framework.roles:
        yield not_supported(field, role, framework.roles)
    containers = ((replica.get("template") or {}).get("spec") or {}).get("containers") or []
    place = f"{field}.template.spec.containers"
    if not containers:
        yield required(place, "must be specified")
    for position, container in enumerate(containers):
        if not container.get("image"):
            yield required(f"{place}[{position}].image", "must be required")
    if framework.container and all(container.get("name") != framework.container for container in containers):
        yield required(place, f"must have at least one container with name {framework.container}")


def _leaders(framework: Framework, field: str, replicas: Mapping[str, Json | None]) -> Iterator[Cause]:
    leaders = [role for role in framework.leaders if role in replicas]
    if len(leaders) > 1:
        yield forbidden_field(field, f"must not have more than 1 {' or '.join(framework.leaders)} role")
    if framework.leader_required and not leaders:
        yield required(f"{field}[{framework.leaders[0]}]", "must be present")
    for role in leaders:
        count = (replicas[role] or {}).get("replicas")
        is_one = framework.leader_is_one or (role in framework.unnumbered and count is not None)
        if is_one and count != 1:
            yield forbidden_field(f"{field}[{role}].replicas", "must be 1")
    workers = (replicas.get(WORKER) or {}).get("replicas")
    if not any((replica or {}).get("replicas", 1) for replica in replicas.values()):
        text = "must be at least 1" if WORKER in replicas else "must have at least one pod"
        yield forbidden_field(f"{field}[{WORKER}].replicas" if WORKER in replicas else field, text)
    elif framework.elastic and workers is not None and workers < 1:
        yield forbidden_field(f"{field}[{WORKER}].replicas", "must be at least 1")


def _elastic(framework: Framework, field: str, spec: Json) -> Iterator[Cause]:
    policy = spec.get("elasticPolicy")
    if not framework.elastic or policy is None:
        return
    if WORKER not in spec[framework.replica_map]:
        yield required(f"{field}[{WORKER}]", "must be configured if elastic policy is used")
    if spec.get("nprocPerNode") is not None and policy.get("nProcPerNode") is not None:
        yield forbidden_field("spec.elasticPolicy.nProcPerNode", "must not be used with spec.nprocPerNode")
