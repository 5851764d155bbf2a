"""JobFlow admission (spec volcano-api 20)."""

from __future__ import annotations

from strato.admission.dag import dag_problem
from strato.admission.request import AdmissionReader, AdmissionRequest, Denied

WEBHOOK = "validatejobflow.volcano.sh"


def validate(request: AdmissionRequest, reader: AdmissionReader) -> None:
    """Check that the flows form a DAG; of flows with one name the last counts."""
    assert request.object is not None
    flows = (request.object.get("spec") or {}).get("flows") or ()
    edges = {flow.get("name", ""): tuple((flow.get("dependsOn") or {}).get("targets") or ()) for flow in flows}
    problem = dag_problem(edges, allow_repeats=True)
    if problem:
        raise Denied(WEBHOOK, f"jobflow Flow is not DAG: {problem}")
