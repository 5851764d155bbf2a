"""Pod security admission: namespaces say by label which pods they enforce, audit and warn about.

`policy` reads the labels, `checks` holds the pod security standards, `admission` applies both to requests.
"""

from strato.admission.podsecurity.admission import (
    has_no_profile_annotations,
    validate_namespace,
    validate_pod,
    validate_workload,
)

__all__ = ["has_no_profile_annotations", "validate_namespace", "validate_pod", "validate_workload"]
