"""Import an allocation file: Queue manifests, a scheduler configuration, and a report on every line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from strato.api.queueacls import ADMINISTER, SUBMIT
from strato.errors import InvalidInput, Problem
from strato.interop.yarn.fair import allocationfile
from strato.interop.yarn.fair.allocation import ROOT, Allocations, acl_text, parent_of
from strato.interop.yarn.fair.options import PREFIX, FairOptions, options_of
from strato.interop.yarn.fairplugin.sources import annotations_of
from strato.interop.yarn.hadoopxml import HEARTBEAT, Element
from strato.interop.yarn.importing import (
    DIFFERS,
    MAPS,
    MISSING,
    OPEN_ABOVE,
    REFUSED,
    Imported,
    ImportedLine,
    ImportOptions,
    Sources,
    fits_annotation,
    queue_names,
    resource_names,
)
from strato.interop.yarn.objects import PATH

_PLACED = "start the webhook with --queue-placement and this file; rules place in queues that exist, and create none"
_NOT_PLACED = "counts without a queuePlacementPolicy only; write one and start the webhook with --queue-placement"
_RESERVATIONS = "reservations are not carried over"

_LISTS = {"aclSubmitApps": SUBMIT, "aclAdministerApps": ADMINISTER}
_QUEUE: dict[str, tuple[str, str]] = {
    "minResources": (MAPS, "minimum, served before others are"),
    "maxResources": (MAPS, "maximum, on this queue and all below it"),
    "maxChildResources": (MAPS, "maximum of queues below that no file declares"),
    "maxContainerAllocation": (DIFFERS, "a larger pod is refused; YARN would cut the request, a pod cannot be cut"),
    "maxRunningApps": (MAPS, "jobs over the limit wait"),
    "weight": (MAPS, "weight among its siblings"),
    "schedulingPolicy": (MAPS, "order and shares of what is in the queue"),
    "schedulingMode": (MAPS, "the old name of schedulingPolicy"),
    "minSharePreemptionTimeout": (MAPS, "seconds below the minimum until others make room"),
    "fairSharePreemptionTimeout": (MAPS, "seconds below the fair share until others make room"),
    "fairSharePreemptionThreshold": (MAPS, "part of the fair share below which a job is starved"),
    "allowPreemptionFrom": (MAPS, "whether jobs of the queue make room"),
    "aclSubmitApps": (MAPS, f"annotation {SUBMIT} of the Queue"),
    "aclAdministerApps": (MAPS, f"annotation {ADMINISTER} of the Queue"),
    "aclAdministerReservations": (MISSING, _RESERVATIONS),
    "aclListReservations": (MISSING, _RESERVATIONS),
    "aclSubmitReservations": (MISSING, _RESERVATIONS),
    "reservation": (MISSING, _RESERVATIONS + "; the queue becomes a parent"),
}
_TOP: dict[str, tuple[str, str]] = {
    "userMaxAppsDefault": (MAPS, "how many jobs of a user run"),
    "queueMaxAppsDefault": (MAPS, "how many jobs of a queue run"),
    "queueMaxResourcesDefault": (MAPS, "maximum of queues that name none"),
    "queueMaxAMShareDefault": (MAPS, "share of application masters where a queue names none"),
    "defaultQueueSchedulingPolicy": (MAPS, "policy of queues that name none"),
    "defaultQueueSchedulingMode": (MAPS, "the old name of defaultQueueSchedulingPolicy"),
    "defaultMinSharePreemptionTimeout": (MAPS, "the root's"),
    "defaultFairSharePreemptionTimeout": (MAPS, "the root's"),
    "fairSharePreemptionTimeout": (MAPS, "the old name of defaultFairSharePreemptionTimeout"),
    "defaultFairSharePreemptionThreshold": (MAPS, "the root's"),
    "queuePlacementPolicy": (DIFFERS, _PLACED),
    "reservation-agent": (MISSING, _RESERVATIONS),
    "reservation-planner": (MISSING, _RESERVATIONS),
    "reservation-policy": (MISSING, _RESERVATIONS),
}
_ALL_AT_ONCE = "a cycle places all that fits, on all nodes; nodes send no heartbeats"
_OPTIONS: dict[str, tuple[str, str]] = {
    "preemption": (MAPS, "argument yarnfair.preemption"),
    "preemption.cluster-utilization-threshold": (MAPS, "argument yarnfair.preemptionUtilizationThreshold"),
    "waitTimeBeforeKill": (MAPS, "argument yarnfair.waitTimeBeforeKill"),
    "waitTimeBeforeNextStarvationCheck": (MAPS, "argument yarnfair.waitTimeBeforeNextStarvationCheck"),
    "am.preemption": (MAPS, "argument yarnfair.amPreemption"),
    "sizebasedweight": (MAPS, "argument yarnfair.sizeBasedWeight"),
    "allocation.file": (
        DIFFERS,
        "queues carry the settings as annotations; yarnfair.allocationFile reads a file instead",
    ),
    "user-as-default-queue": (MISSING, _NOT_PLACED),
    "allow-undeclared-pools": (MISSING, _NOT_PLACED),
    "no-terminal-rule.check": (MISSING, _NOT_PLACED),
    "assignmultiple": (MISSING, _ALL_AT_ONCE),
    "dynamic.max.assign": (MISSING, _ALL_AT_ONCE),
    "max.assign": (MISSING, _ALL_AT_ONCE),
    "continuous-scheduling-enabled": (MISSING, _ALL_AT_ONCE),
    "continuous-scheduling-sleep-ms": (MISSING, _ALL_AT_ONCE),
    "update-interval-ms": (MISSING, "shares are computed in every cycle; see --schedule-period"),
    "locality.threshold.node": (
        MAPS,
        "argument yarnfair.localityThresholdNode; nodes are named by preferred affinity",
    ),
    "locality.threshold.rack": (
        MAPS,
        "argument yarnfair.localityThresholdRack; nodes are named by preferred affinity",
    ),
    "locality-delay-node-ms": (
        MAPS,
        "argument yarnfair.localityDelayNode, with continuous scheduling",
    ),
    "locality-delay-rack-ms": (
        MAPS,
        "argument yarnfair.localityDelayRack, with continuous scheduling",
    ),
    "reservable-nodes": (MAPS, "argument yarnfair.reservableNodes; gangs reserve none"),
}
_ROUNDING = ("yarn.scheduler.minimum-allocation-", "yarn.scheduler.increment-allocation-", "yarn.resource-types.")
_THRESHOLD = "yarn.scheduler.reservation-threshold.increment-multiple"
_CUT = "yarn.scheduler.maximum-allocation-"


def checked(sources: Sources, options: ImportOptions) -> list[ImportedLine]:
    """Return the report on the files, without lines that map unchanged.

    Raises:
        InvalidInput: YARN would refuse them.
    """
    read, _ = _read(sources)
    return [line for line in _lines(sources, read, options) if line.becomes != MAPS]


def imported(sources: Sources, options: ImportOptions) -> Imported:
    """Import the files.

    Raises:
        InvalidInput: YARN would refuse them, or the effect of a line in YARN is not what the author wrote.
    """
    read, site = _read(sources)
    lines = _lines(sources, read, options)
    refused = [Problem(f"line {line.line}: {line.what}", line.text) for line in lines if line.becomes == REFUSED]
    if refused:
        raise InvalidInput(sources.file, refused)
    resources = resource_names(site.types.names[2:], options)
    return Imported(_queues(sources.root, read), _config(site, resources, options), lines)


def _read(sources: Sources) -> tuple[Allocations, FairOptions]:
    site = options_of(sources.settings)
    return allocationfile.read(sources.root, site.types, sources.file, check_rules=site.check_rules), site


# -- manifests ---------------------------------------------------------------------------------------------------------


def _queues(root: Element, read: Allocations) -> list[Mapping[str, Any]]:
    names = queue_names([ROOT, *(path for path in read.queues if path != ROOT)])
    settings = {path: _settings(element) for path, element in _elements(root)}
    defaults = {one.name: (one.text or "").strip() for one in root.children if one.name in _TOP and one.text}
    defaults = {name: value for name, value in defaults.items() if _TOP[name][0] == MAPS}
    users = {user: str(most) for user, most in read.user_max_apps.items() if fits_annotation(user)}
    made: list[Mapping[str, Any]] = []
    lists = _access_lists(root)
    for path, name in names.items():
        own = settings.get(path, {})
        annotations = {
            PATH: path,
            **lists.get(path, {}),
            **annotations_of(own, *((defaults, users) if path == ROOT else ({}, {}))),
        }
        found = read.settings_of(path)
        spec: dict[str, Any] = {"weight": max(1, round(found.weight)), "reclaimable": found.preemptable}
        if path != ROOT:
            spec["parent"] = names.get(parent_of(path), ROOT)
        made.append(
            {
                "apiVersion": "scheduling.volcano.sh/v1beta1",
                "kind": "Queue",
                "metadata": {"name": name, "annotations": annotations},
                "spec": spec,
            }
        )
    return made


def _elements(root: Element) -> list[tuple[str, Element]]:
    """Return every queue element with its path, in the order of the file."""
    found: list[tuple[str, Element]] = []
    waiting = [("", element) for element in root.all_named("queue", "pool")]
    while waiting:
        above, element = waiting.pop(0)
        name = element.attributes.get("name", "").strip()
        path = ROOT if not above and name.lower() == ROOT else f"{above or ROOT}.{name}"
        found.append((path, element))
        waiting = [(path, child) for child in element.all_named("queue", "pool")] + waiting
    return found


def _access_lists(root: Element) -> dict[str, dict[str, str]]:
    """Return the access lists of queues by annotation, with the root's default (open to all) if any queue has one."""
    found: dict[str, dict[str, str]] = {ROOT: {}}
    for path, element in _elements(root):
        for child in element.children:
            if child.name in _LISTS:
                found.setdefault(path, {})[_LISTS[child.name]] = acl_text(child.text or "")
    for key in _LISTS.values():
        if any(key in lists for lists in found.values()):
            found[ROOT].setdefault(key, "*")
    return found


def _is_open_above(path: str, key: str, lists: Mapping[str, Mapping[str, str]]) -> bool:
    """Return whether a queue's list has no effect because an ancestor's is open to all."""
    above = parent_of(path)
    while above:
        if lists.get(above, {}).get(key) == "*":
            return True
        above = parent_of(above)
    return False


def _settings(element: Element) -> dict[str, str]:
    """Return the settings of one queue element that the import keeps."""
    found = {
        "schedulingPolicy" if one.name == "schedulingMode" else one.name: (one.text or "").strip()
        for one in element.children
        if one.name == "maxAMShare" or (one.name not in _LISTS and _QUEUE.get(one.name, (MISSING, ""))[0] != MISSING)
    }
    if element.attributes.get("type") == "parent":
        found["type"] = "parent"
    return found


# -- configuration -----------------------------------------------------------------------------------------------------


def _config(site: FairOptions, resources: Mapping[str, str], options: ImportOptions) -> Mapping[str, Any]:
    arguments: dict[str, Any] = {}
    if site.preemption:
        arguments |= {
            "yarnfair.preemption": True,
            "yarnfair.preemptionUtilizationThreshold": site.utilization_threshold,
            "yarnfair.waitTimeBeforeKill": site.wait_before_kill_ms,
            "yarnfair.waitTimeBeforeNextStarvationCheck": site.wait_before_check_ms,
            "yarnfair.amPreemption": site.am_preemption.get("", True),
        }
    default = FairOptions()
    arguments |= {
        f"yarnfair.{name}": value
        for name, value, otherwise in (
            ("sizeBasedWeight", site.size_based_weight, default.size_based_weight),
            ("reservableNodes", min(1.0, max(0.0, site.reservable_nodes)), default.reservable_nodes),
            ("reservationThreshold", max(0.0, site.reservation_multiple), default.reservation_multiple),
            ("localityThresholdNode", site.node_threshold, default.node_threshold),
            ("localityThresholdRack", site.rack_threshold, default.rack_threshold),
            ("heartbeatInterval", site.heartbeat_ms, default.heartbeat_ms),
        )
        if value != otherwise
    }
    if site.continuous:
        arguments |= {
            "yarnfair.localityDelayNode": site.node_delay_ms,
            "yarnfair.localityDelayRack": site.rack_delay_ms,
        }
    if resources:
        arguments["yarnfair.resources"] = ", ".join(f"{name}={resource}" for name, resource in resources.items())
    if options.user_key:
        arguments["yarnfair.userKey"] = options.user_key
    if options.master_label:
        arguments["yarnfair.amLabel"] = options.master_label
    making_room = ["preempt", "reclaim"] if site.preemption else []
    return {
        "actions": ", ".join(["enqueue", "allocate", *making_room, "backfill"]),
        "tiers": [
            {
                "plugins": [
                    {"name": "yarnfair", "arguments": arguments} if arguments else {"name": "yarnfair"},
                    {"name": "gang", "enableJobStarving": False},
                    {"name": "conformance"},
                ]
            },
            {"plugins": [{"name": "predicates"}, {"name": "nodeorder"}]},
        ],
    }


# -- line by line ------------------------------------------------------------------------------------------------------


def _lines(sources: Sources, read: Allocations, options: ImportOptions) -> list[ImportedLine]:
    file, lines = sources.file, []
    for remark in read.remarks:
        becomes = REFUSED if remark.refuses else DIFFERS
        becomes = MISSING if remark.text.endswith("is ignored") else becomes
        lines.append(ImportedLine(file, remark.line, remark.where or "allocations", becomes, remark.text))
    lists = _access_lists(sources.root)
    remarked = {(remark.line, remark.where) for remark in read.remarks if "is ignored" in remark.text}
    for path, element in _elements(sources.root):
        for child in element.children:
            if child.name == "maxAMShare":
                lines.append(ImportedLine(file, child.line, f"{path}: maxAMShare", *_am_share(options)))
            elif child.name in _LISTS and child.text != "*" and _is_open_above(path, _LISTS[child.name], lists):
                lines.append(ImportedLine(file, child.line, f"{path}: {child.name}", DIFFERS, OPEN_ABOVE))
            elif child.name in _QUEUE:
                lines.append(ImportedLine(file, child.line, f"{path}: {child.name}", *_QUEUE[child.name]))
            elif child.name not in ("queue", "pool") and (child.line, path) not in remarked:
                lines.append(ImportedLine(file, child.line, f"{path}: {child.name}", MISSING, "unknown"))
    for child in sources.root.children:
        if child.name == "user":
            name = child.attributes.get("name", "")
            lines.append(ImportedLine(file, child.line, f"user {name}: maxRunningApps", *_user(name, options)))
        elif child.name == "queueMaxAMShareDefault":
            lines.append(ImportedLine(file, child.line, child.name, *_am_share(options)))
        elif child.name in _TOP:
            lines.append(ImportedLine(file, child.line, child.name, *_TOP[child.name]))
    lines.sort(key=lambda line: line.line)
    return lines + _site_lines(sources)


def _site_lines(sources: Sources) -> list[ImportedLine]:
    lines = []
    for setting in sources.settings:
        becomes: tuple[str, str] | None = None
        name = setting.name.removeprefix(PREFIX)
        if setting.name.startswith(PREFIX):
            known = "am.preemption" if name.startswith("am.preemption.") else name
            becomes = _OPTIONS.get(known, (MISSING, "is no option that changes decisions"))
            if known != name:
                becomes = (MISSING, "for single queues; yarnfair.amPreemption is for all")
        elif setting.name == _THRESHOLD:
            becomes = (MAPS, "argument yarnfair.reservationThreshold")
        elif setting.name == HEARTBEAT:
            becomes = (MAPS, "argument yarnfair.heartbeatInterval, of which waits for nodes are made")
        elif setting.name.startswith(_CUT):
            becomes = (MISSING, "pods are not cut; maxContainerAllocation of the root queue refuses larger ones")
        elif setting.name.startswith(_ROUNDING):
            becomes = (MISSING, "requests are not rounded; pods get what they ask for")
        if becomes is not None:
            lines.append(ImportedLine(sources.settings.file, setting.line, setting.name, *becomes))
    return lines


def _am_share(options: ImportOptions) -> tuple[str, str]:
    if options.master_label:
        return MAPS, f"limits pods with the label {options.master_label}"
    return DIFFERS, "limits nothing until application masters are marked; see --am-label"


def _user(name: str, options: ImportOptions) -> tuple[str, str]:
    if not fits_annotation(name):
        return MISSING, "the name is no key of an annotation; read the file with yarnfair.allocationFile instead"
    if options.user_key:
        return MAPS, f"limits jobs whose label or annotation {options.user_key} names the user"
    return DIFFERS, "a job's namespace is its user; see --user-key"


def summary(lines: Sequence[ImportedLine]) -> str:
    """Return a line with the number of lines of each outcome."""
    counts = {kind: sum(line.becomes == kind for line in lines) for kind in (MAPS, DIFFERS, MISSING, REFUSED)}
    return ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
