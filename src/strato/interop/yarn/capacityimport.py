"""Import a `capacity-scheduler.xml`: Queue manifests, a scheduler configuration, and a report on every line.

The plugin reads the file itself, so Queue objects carry only names, parents and priorities. Properties of
`yarn-site.xml` that the plugin needs go into its arguments.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from strato.api import joblifetimes
from strato.api.queueacls import ADMINISTER, SUBMIT
from strato.interop.yarn import hadoopxml
from strato.interop.yarn.capacity import mappingrules
from strato.interop.yarn.capacity.autocreation import QueueCatalogue
from strato.interop.yarn.capacity.configuration import ROOT, CapacityConfiguration
from strato.interop.yarn.capacity.notation import Unit
from strato.interop.yarn.capacity.settings import MONITOR_ENABLED, PREEMPTION, SCHEDULER
from strato.interop.yarn.importing import (
    DIFFERS,
    MAPS,
    MISSING,
    OPEN_ABOVE,
    Imported,
    ImportedLine,
    ImportOptions,
    Sources,
    queue_names,
    resource_names,
)
from strato.interop.yarn.objects import PATH

_NOT_PLACED = (
    "start the webhook with --queue-placement and this file; rules place in queues that exist, and create none"
)
_RESERVATIONS = "reservations are not carried over"
_ALL_AT_ONCE = "a cycle places all that fits, on all nodes; nodes send no heartbeats"
_LOCALITY = "pods wait for nodes of their preferred affinity, then for those with the same yarncapacity.rackLabel"
_LABELS = "nodes have partitions once yarncapacity.nodeLabelKey names the node label that says which"
_CREATED = (
    "a Queue object below it (annotation yarn.strato.io/path) is created with these settings; placement makes none"
)
_NO_CUT = "pods are not cut; admission or a LimitRange refuses larger ones"
_AT_ADMISSION = "the webhook rejects jobs beyond it, with --queue-placement and this file; without, they wait"

_QUEUE: tuple[tuple[str, str, str], ...] = (
    (r"queues", MAPS, "its queues"),
    (r"capacity", MAPS, "its guarantee"),
    (r"maximum-capacity", MAPS, "its maximum"),
    (r"minimum-user-limit-percent", MAPS, "what a user gets at least"),
    (r"user-limit-factor", MAPS, "what a user gets at most"),
    (r"user-settings\..+\.weight", MAPS, "a user's weight"),
    (r"maximum-applications", DIFFERS, _AT_ADMISSION),
    (r"(user\.(.+\.)?)?max-parallel-apps", MAPS, "jobs beyond it wait"),
    (r"ordering-policy", MAPS, "order of its queues or jobs"),
    (r"ordering-policy\.fair\.enable-size-based-weight", MAPS, "larger jobs weigh more"),
    (r"ordering-policy\.exclusive-enforced-partitions", DIFFERS, "one order for all partitions"),
    (r"priority", MAPS, "its priority beside its siblings"),
    (r"default-application-priority", MAPS, "priority of jobs that have none"),
    (r"state", MAPS, "a stopped queue takes no new jobs"),
    (r"acl_submit_applications", MAPS, f"annotation {SUBMIT} of the Queue"),
    (r"acl_administer_queue", MAPS, f"annotation {ADMINISTER} of the Queue"),
    (r"acl_\w+", MISSING, _RESERVATIONS),
    (r"(intra-queue-preemption\.)?disable_preemption", MAPS, "whether its pods make room"),
    (r"maximum-application-lifetime", MAPS, f"annotation {joblifetimes.MAXIMUM} of the Queue"),
    (r"default-application-lifetime", MAPS, f"annotation {joblifetimes.DEFAULT} of the Queue"),
    (r"maximum-allocation(-mb|-vcores)?", MISSING, _NO_CUT),
    (r"accessible-node-labels(\..+\.(maximum-)?capacity)?", DIFFERS, _LABELS),
    (r"default-node-label-expression", DIFFERS, _LABELS),
    (r"allow-zero-capacity-sum", MAPS, "its queues may all have nothing"),
    (r"auto-create-child-queue\..+", DIFFERS, _CREATED),
    (r"leaf-queue-template\..+", DIFFERS, _CREATED),
    (r"auto-queue-creation-v2\..+", DIFFERS, _CREATED),
    (r"reservable|average-capacity|reservation-.+", MISSING, _RESERVATIONS),
    (r"multi-node-sorting\.policy", MISSING, "plugins of the scheduler score nodes"),
)
"""Outcomes of queue properties, by pattern of the name below the queue's path."""
_GLOBAL: tuple[tuple[str, str, str], ...] = (
    (r"maximum-applications|global-queue-max-application", DIFFERS, _AT_ADMISSION),
    (r"resource-calculator", MAPS, "which types of resources count"),
    (r"legacy-queue-mode\.enabled", MAPS, "whether types of resources may be counted in different ways"),
    (r"minimum-user-limit-percent|user-limit-factor", MAPS, "for queues that have none of their own"),
    (r"(user\.(.+\.)?)?max-parallel-apps", MAPS, "for queues that have none of their own"),
    (r"lazy-preemption-enabled", DIFFERS, "marked pods always stay until somebody asks for their room"),
    (
        r"ordering-policy\.priority-utilization\.underutilized-preemption\..+",
        MAPS,
        "whether more important queues' reservations take room",
    ),
    (r"queue-mappings(-override\.enable)?|mapping-rule-.+|workflow-.+", DIFFERS, _NOT_PLACED),
    (r"node-locality-delay|rack-locality-additional-delay", MAPS, _LOCALITY),
    (r"rack-locality-full-reset", MISSING, "nobody's wait begins again with a container"),
    (r"per-node-heartbeat\..+|schedule-asynchronously\..+|offswitch-.+", MISSING, _ALL_AT_ONCE),
    (r"multi-node-.+", MISSING, "plugins of the scheduler score nodes"),
    (r"reservations-continue-look-all-nodes", MAPS, "whether a pod that has a node reserved may start elsewhere"),
    (r"skip-allocate-on-nodes-.+", DIFFERS, "a reserved node takes no other pods, whatever it says"),
    (r"auto-queue-creation-v2\..+", DIFFERS, _CREATED),
    (r"application\.fail-fast", MISSING, "is no option that changes decisions"),
)
_SITE: tuple[tuple[str, str, str], ...] = (
    (re.escape(MONITOR_ENABLED), MAPS, "whether pods make room for others"),
    (re.escape(PREEMPTION) + r".+", MAPS, "an argument of the plugin, under yarncapacity.properties"),
    (re.escape(hadoopxml.HEARTBEAT), MAPS, "counts scheduling opportunities, of which waits for nodes are made"),
    (r"yarn\.resource-types", MAPS, "types of resources"),
    (r"yarn\.resource-types\..+", MISSING, "requests are not rounded; pods get what they ask for"),
    (r"yarn\.scheduler\.minimum-allocation-.+", DIFFERS, "rounds limits; requests are not rounded"),
    (r"yarn\.scheduler\.maximum-allocation-.+", MISSING, _NO_CUT),
    (r"yarn\.scheduler\.queue-placement-rules.*", DIFFERS, _NOT_PLACED),
)
_USERS = ("user-settings", "minimum-user-limit", "user-limit-factor", "user.")
_NOT_AN_OPTION = "is no option that changes decisions"


def checked(sources: Sources, options: ImportOptions) -> list[ImportedLine]:
    """Return the report on the files, without lines that map unchanged.

    Raises:
        InvalidInput: YARN would refuse them.
    """
    catalogue = _read(sources)
    return [line for line in _lines(sources, catalogue.configuration, options) if line.becomes != MAPS]


def imported(sources: Sources, options: ImportOptions) -> Imported:
    """Import the files.

    Raises:
        InvalidInput: YARN would refuse them.
    """
    catalogue = _read(sources)
    configuration = catalogue.configuration
    resources = resource_names(configuration.types.names[2:], options)
    lines = _lines(sources, configuration, options)
    return Imported(_queues(sources, configuration), _config(sources, configuration, resources, options), lines)


def _read(sources: Sources) -> QueueCatalogue:
    catalogue = QueueCatalogue.of(sources.settings)
    mappingrules.read(sources.settings)
    return catalogue


# -- manifests ---------------------------------------------------------------------------------------------------------


def _queues(sources: Sources, configuration: CapacityConfiguration) -> list[Mapping[str, Any]]:
    names = queue_names(queue.path for queue in configuration.root.walk())
    made: list[Mapping[str, Any]] = []
    for queue in configuration.root.walk():
        capacity = queue.capacities[""].parts[0]
        takes_part = capacity.unit in {Unit.PERCENT, Unit.WEIGHT}
        spec: dict[str, Any] = {
            "weight": max(1, round(capacity.value)) if takes_part else 1,
            "reclaimable": not (configuration.preemption_enabled and queue.preemption_disabled),
        }
        if queue.priority:
            spec["priority"] = queue.priority
        if queue.path != ROOT:
            spec["parent"] = names[queue.parent_path]
        made.append(
            {
                "apiVersion": "scheduling.volcano.sh/v1beta1",
                "kind": "Queue",
                "metadata": {
                    "name": names[queue.path],
                    "annotations": {
                        PATH: queue.path,
                        **_access_lists(queue.path, sources, configuration),
                        **_lifetimes(queue.path, sources),
                    },
                },
                "spec": spec,
            }
        )
    return made


_LISTS = (("acl_submit_applications", SUBMIT), ("acl_administer_queue", ADMINISTER))


def _access_lists(path: str, sources: Sources, configuration: CapacityConfiguration) -> dict[str, str]:
    """Return a queue's access lists in the file; also the root's default (open to all) if any queue has a list."""
    found: dict[str, str] = {}
    for name, annotation in _LISTS:
        has_one = any(f"{SCHEDULER}{each}.{name}" in sources.settings for each in configuration.by_path)
        if f"{SCHEDULER}{path}.{name}" in sources.settings or (path == ROOT and has_one):
            queue = configuration.by_path[path]
            found[annotation] = queue.submit_acl if annotation == SUBMIT else queue.administer_acl
    return found


def _lifetimes(path: str, sources: Sources) -> dict[str, str]:
    """Return a queue's application lifetimes in the file; queues below inherit them here as in YARN."""
    names = {"maximum": joblifetimes.MAXIMUM, "default": joblifetimes.DEFAULT}
    values = {
        key: sources.settings.get(f"{SCHEDULER}{path}.{name}-application-lifetime") for name, key in names.items()
    }
    return {key: value for key, value in values.items() if value}


# -- configuration -----------------------------------------------------------------------------------------------------


def _config(
    sources: Sources, configuration: CapacityConfiguration, resources: Mapping[str, str], options: ImportOptions
) -> Mapping[str, Any]:
    arguments: dict[str, Any] = {"yarncapacity.file": str(Path(sources.file).absolute())}
    own = {setting.name for setting in hadoopxml.settings_of(sources.root, sources.file)}
    properties = {
        setting.name: sources.settings.get(setting.name)
        for setting in sources.settings
        if setting.name not in own and _found(_SITE, setting.name) is not None
    }
    if properties:
        arguments["yarncapacity.properties"] = properties
    if resources:
        arguments["yarncapacity.resources"] = ", ".join(f"{name}={resource}" for name, resource in resources.items())
    if options.user_key:
        arguments["yarncapacity.userKey"] = options.user_key
    if options.master_label:
        arguments["yarncapacity.amLabel"] = options.master_label
    making_room = ["preempt", "reclaim"] if configuration.preemption_enabled else []
    gang = {"name": "gang", "enableJobStarving": False, "enablePreemptable": False, "enableReclaimable": False}
    return {
        "actions": ", ".join(["enqueue", "allocate", *making_room, "backfill"]),
        "tiers": [
            {"plugins": [{"name": "yarncapacity", "arguments": arguments}, gang, {"name": "conformance"}]},
            {"plugins": [{"name": "predicates"}, {"name": "nodeorder"}]},
        ],
    }


# -- line by line ------------------------------------------------------------------------------------------------------


def _found(table: tuple[tuple[str, str, str], ...], name: str) -> tuple[str, str] | None:
    return next(((becomes, text) for pattern, becomes, text in table if re.fullmatch(pattern, name)), None)


def _lines(sources: Sources, configuration: CapacityConfiguration, options: ImportOptions) -> list[ImportedLine]:
    own = {setting.name for setting in hadoopxml.settings_of(sources.root, sources.file)}
    site = sources.settings.file if sources.settings.file != sources.file else "yarn-site.xml"
    lines: list[ImportedLine] = []
    for setting in sources.settings:
        file = sources.file if setting.name in own else site
        becomes = _becomes(setting.name, configuration, options)
        if becomes is not None:
            lines.append(ImportedLine(file, setting.line, setting.name.removeprefix(SCHEDULER), *becomes))
    lines += _traps(sources, configuration)
    lines.sort(key=lambda line: (line.file != sources.file, line.line))
    return lines


def _becomes(name: str, configuration: CapacityConfiguration, options: ImportOptions) -> tuple[str, str] | None:
    """Return the outcome of importing a property; None for a property that is not the scheduler's."""
    if not name.startswith(SCHEDULER):
        return _found(_SITE, name)
    short = name.removeprefix(SCHEDULER)
    if not short.startswith((ROOT + ".", "root.*")):
        return _am_percent(short, options) or _found(_GLOBAL, short) or (MISSING, _NOT_AN_OPTION)
    path = _path_in(short, configuration)
    rest = short[len(path) + 1 :]
    found = _am_percent(rest, options) or _found(_QUEUE, rest)
    if found is None:
        if rest.startswith("*"):
            return DIFFERS, _CREATED
        known = any(_found(_QUEUE, ".".join(rest.split(".")[at:])) for at in range(1, rest.count(".") + 1))
        return MISSING, f"no queue below {path} has this name" if known else _NOT_AN_OPTION
    if rest.startswith(_USERS) and not options.user_key and found[0] == MAPS:
        return DIFFERS, "a job's namespace is its user; see --user-key"
    return found


def _path_in(short: str, configuration: CapacityConfiguration) -> str:
    """Return the longest queue path that is a prefix of a property's name."""
    parts = short.split(".")
    for count in range(len(parts) - 1, 0, -1):
        path = ".".join(parts[:count])
        if path in configuration.by_path:
            return path
    return ROOT


def _am_percent(name: str, options: ImportOptions) -> tuple[str, str] | None:
    if not name.endswith("maximum-am-resource-percent"):
        return None
    if options.master_label:
        return MAPS, f"limits pods with the label {options.master_label}"
    return DIFFERS, "limits nothing until application masters are marked; see --am-label"


def _traps(sources: Sources, configuration: CapacityConfiguration) -> Iterator[ImportedLine]:
    """Yield settings that YARN accepts although their effect is hardly what the author intended."""
    yield from _open_lists(sources, configuration)
    for queue in configuration.root.walk():
        least, most = queue.capacities.get(""), queue.maximums.get("")
        if least is None or most is None or queue.path == ROOT:
            continue
        both = least.unit is Unit.PERCENT and most.unit is Unit.PERCENT
        if both and least.fraction > most.fraction:
            text = "is below the queue's capacity, so it never gets what it is guaranteed; YARN accepts that"
            setting = sources.settings.by_name.get(f"{SCHEDULER}{queue.path}.maximum-capacity")
            line = setting.line if setting is not None else queue.line
            yield ImportedLine(sources.file, line, f"{queue.path}.maximum-capacity", DIFFERS, text)


def _open_lists(sources: Sources, configuration: CapacityConfiguration) -> Iterator[ImportedLine]:
    for queue in configuration.root.walk():
        for name, _ in _LISTS:
            setting = sources.settings.by_name.get(f"{SCHEDULER}{queue.path}.{name}")
            if setting is None or queue.path == ROOT or setting.value.strip() == "*":
                continue
            above = [path for path in configuration.by_path if queue.path.startswith(path + ".")]
            fields = [configuration.by_path[path] for path in above]
            lists = [each.submit_acl if name == _LISTS[0][0] else each.administer_acl for each in fields]
            if any(one.strip() == "*" for one in lists):
                yield ImportedLine(sources.file, setting.line, f"{queue.path}.{name}", DIFFERS, OPEN_ABOVE)
