"""Queue admission: defaults, basic rules, hierarchy (spec volcano-api 18)."""

from __future__ import annotations

from dataclasses import dataclass

from strato.admission.queue_reads import ROOT, children_of, parent_of, state_of
from strato.admission.queue_resources import has_allocated_pods, hierarchy_resource_problem, resource_problems
from strato.admission.request import AdmissionReader, AdmissionRequest, Denied, Json, Operation
from strato.api import catalog

WEBHOOK = "validatequeue.volcano.sh"
HIERARCHY = "volcano.sh/hierarchy"
WEIGHTS = "volcano.sh/hierarchy-weights"
RESOURCE_FIELDS = ("capability", "deserved", "guarantee")


def mutate(request: AdmissionRequest, reader: AdmissionReader) -> None:
    """Default a queue that is created, or replaced by its whole manifest: parent root, reclaimable, weight 1."""
    queue = request.object
    assert queue is not None
    annotations = (queue.get("metadata") or {}).get("annotations") or {}
    path, weights = annotations.get(HIERARCHY), annotations.get(WEIGHTS)
    if path and weights and not path.startswith(ROOT):
        annotations[HIERARCHY] = f"{ROOT}/{path}"
        annotations[WEIGHTS] = f"1/{weights}"
    spec = queue.get("spec")
    if spec is None:
        spec = queue["spec"] = {}
    if spec.get("reclaimable") is None:
        spec["reclaimable"] = True
    if spec.get("weight") is None or (request.operation == Operation.CREATE and not spec["weight"]):
        spec["weight"] = 1
    old = request.old_object if request.operation == Operation.UPDATE else None
    if old is not None and not spec.get("parent") and (old.get("spec") or {}).get("parent") == ROOT:
        spec["parent"] = ROOT  # the controller has filled this in; applying the manifest again must not remove it


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRules:
    """Validation of queues."""

    max_depth: int = 5
    protect_root: bool = True
    check_allocated_pods: bool = False

    def validate(self, request: AdmissionRequest, reader: AdmissionReader) -> None:
        """Refuse an invalid new or changed queue."""
        queue = request.object
        assert queue is not None
        problems = _basic_problems(request.name, queue, reader)
        if problems:
            raise Denied(WEBHOOK, problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")
        old = request.old_object if request.operation == Operation.UPDATE else None
        problem = self._later_problem(request.name, queue, old, reader)
        if problem:
            raise Denied(WEBHOOK, problem)

    def _later_problem(self, name: str, queue: Json, old: Json | None, reader: AdmissionReader) -> str:
        spec = queue.get("spec") or {}
        old_spec = (old.get("spec") or {}) if old is not None else {}
        parent = spec.get("parent") or ""
        moved = old is None or parent != (old_spec.get("parent") or "")
        if moved and parent and parent != ROOT and (problem := self._parent_problem(name, parent, reader)):
            return problem
        resources_changed = any(spec.get(field) != old_spec.get(field) for field in RESOURCE_FIELDS)
        if name == ROOT:
            if old is not None and self.protect_root and resources_changed:
                return "root queue's resource attributes (capability, deserved, guarantee) cannot be modified"
            return ""
        if moved or resources_changed:
            return hierarchy_resource_problem(name, queue, reader)
        return ""

    def _parent_problem(self, name: str, parent: str, reader: AdmissionReader) -> str:
        if parent == name:
            return f"queue {name} cannot use itself as parent"
        depth, ancestor = 1, parent
        while ancestor and ancestor != ROOT:
            found = reader.get(catalog.QUEUE, "", ancestor)
            if found is None:
                return (
                    f'failed to get parent queue of queue {name}: queues.scheduling.volcano.sh "{ancestor}" not found'
                )
            depth += 1
            if depth > self.max_depth:
                return f"queue {name} exceeds the maximum allowed depth of {self.max_depth}"
            ancestor = parent_of(found)
        above = reader.get(catalog.QUEUE, "", parent)
        assert above is not None  # walked through above
        others = [child for child in children_of(parent, reader) if child["metadata"]["name"] != name]
        if not others and has_allocated_pods(above):
            return f"queue {parent} cannot be the parent queue of queue {name} because it has allocated Pods"
        return ""

    def validate_delete(self, request: AdmissionRequest, reader: AdmissionReader) -> None:
        """Refuse to delete root, default, queues with children and, if configured so, queues with allocated pods."""
        name = request.name
        if name in ("default", ROOT):
            raise Denied(WEBHOOK, f"`{name}` queue can not be deleted")
        queue = reader.get(catalog.QUEUE, "", name)
        if queue is None:
            raise Denied(WEBHOOK, f'queues.scheduling.volcano.sh "{name}" not found')
        if self.check_allocated_pods and has_allocated_pods(queue):
            raise Denied(WEBHOOK, f"queue {name} cannot be deleted because it has allocated Pods")
        children = [child["metadata"]["name"] for child in children_of(name, reader)]
        if children:
            raise Denied(
                WEBHOOK,
                f"queue {name} can not be deleted because it has {len(children)} child queues: "
                f"{', '.join(sorted(children))}",
            )


def _basic_problems(name: str, queue: Json, reader: AdmissionReader) -> list[str]:
    problems = resource_problems(queue.get("spec") or {})
    state = state_of(queue)
    if state not in ("", "Open", "Closed"):
        problems.append(f'requestBody.spec.state: Invalid value: "{state}": queue state must be in [Open Closed]')
    problems += _hierarchy_problems(name, queue, reader)
    return problems


def _hierarchy_problems(name: str, queue: Json, reader: AdmissionReader) -> list[str]:
    annotations = (queue.get("metadata") or {}).get("annotations") or {}
    path, weights = annotations.get(HIERARCHY) or "", annotations.get(WEIGHTS) or ""
    if not path and not weights:
        return []
    place = "requestBody.metadata.annotations"
    parts, numbers = path.split("/"), weights.split("/")
    if len(parts) != len(numbers):
        return [f'{place}: Invalid value: "{path}": {HIERARCHY} must have the same length with {WEIGHTS}']
    for number in numbers:
        try:
            weight = float(number)
        except ValueError:
            return [
                f'{place}: Invalid value: "{weights}": {number} in the {weights} is invalid number: it cannot be read'
            ]
        if not weight > 0:
            return [f'{place}: Invalid value: "{weights}": {number} in the {weights} must be larger than 0']
    for other in reader.list(catalog.QUEUE, ""):
        metadata = other["metadata"]
        theirs = (metadata.get("annotations") or {}).get(HIERARCHY) or ""
        if metadata["name"] != name and path and theirs.startswith(f"{path}/"):
            return [
                f'{place}: Invalid value: "{path}": {path} is not allowed to be in the sub path of {theirs} '
                f"of queue {metadata['name']}"
            ]
    return []
