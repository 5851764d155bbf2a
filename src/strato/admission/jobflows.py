"""JobFlow admission (spec volcano-api 20), with rules for conditions of steps that Strato adds."""

from __future__ import annotations

from collections.abc import Iterator

from strato.admission.dag import dag_problem
from strato.admission.request import AdmissionReader, AdmissionRequest, Denied, Json
from strato.api.crds.jobs import MAX_CONDITIONS
from strato.api.waitfor import parse_expectation

WEBHOOK = "validatejobflow.volcano.sh"

_MOST_NAMED = 20
"""Most problems that are listed."""


def validate(request: AdmissionRequest, reader: AdmissionReader) -> None:
    """Check that the flows form a DAG (of several with one name the last counts), and the probes steps wait for."""
    assert request.object is not None
    flows = (request.object.get("spec") or {}).get("flows") or ()
    edges = {flow.get("name", ""): tuple((flow.get("dependsOn") or {}).get("targets") or ()) for flow in flows}
    problem = dag_problem(edges, allow_repeats=True)
    if problem:
        raise Denied(WEBHOOK, f"jobflow Flow is not DAG: {problem}")
    problems = [
        f"spec.flows[{number}].dependsOn.probe.{text}"
        for number, flow in enumerate(flows)
        for text in _probe_problems((flow.get("dependsOn") or {}).get("probe") or {})
    ]
    if problems:
        more = f"; and {len(problems) - _MOST_NAMED} more" if len(problems) > _MOST_NAMED else ""
        raise Denied(WEBHOOK, "; ".join(problems[:_MOST_NAMED]) + more)


def _probe_problems(probe: Json) -> Iterator[str]:
    asked = probe.get("httpGetList") or ()
    if sum(bool(entry.get("serviceName")) for entry in asked) > MAX_CONDITIONS:
        yield f"httpGetList: more than {MAX_CONDITIONS} services"
    for number, entry in enumerate(asked):
        if not entry.get("serviceName"):
            continue
        if entry.get("taskName"):
            yield f"httpGetList[{number}]: it names a task and a service; leave one of them out"
        if not entry.get("port"):
            yield f"httpGetList[{number}].port: required with serviceName: a port of the service"
    for number, entry in enumerate(probe.get("objectList") or ()):
        place = f"objectList[{number}]"
        for name in ("kind", "name"):
            if not entry.get(name):
                yield f"{place}.{name}: required"
        for name in ("kind", "name", "apiVersion", "resource"):
            if not _is_plain(str(entry.get(name) or ""), slashes=name == "apiVersion"):
                yield f"{place}.{name}: {entry[name]!r} is no {name} of an object"
        try:
            wanted = parse_expectation(entry.get("for") or "create")
        except ValueError as error:
            yield f"{place}.for: {error}"
            continue
        if str(entry.get("kind")).lower() == "secret" and wanted.reads_values:
            yield f"{place}.for: of a Secret only create and delete are waited for, not {wanted.text!r}"
    for number, entry in enumerate(probe.get("claimPathList") or ()):
        place = f"claimPathList[{number}]"
        if not _is_plain(str(entry.get("claimName") or "/")):
            yield f"{place}.claimName: {str(entry.get('claimName') or '')!r} is no name of a claim"
        path = str(entry.get("path") or "")
        if not path.strip("/") or ".." in path.split("/") or "\0" in path:
            yield f"{place}.path: {path!r} is no path in a claim; write for example input/_SUCCESS, without '..'"


def _is_plain(text: str, *, slashes: bool = False) -> bool:
    """Return whether a text is one segment of a URL's path, or two."""
    return text.count("/") <= slashes and all(c.isalnum() or c in "-_./:" for c in text) and ".." not in text
