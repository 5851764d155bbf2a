"""Differences that are known: by request and by what differs, with the reason (docs/compatibility.md)."""

from __future__ import annotations

import re
from typing import NamedTuple

from tests.differential.comparison import Difference
from tests.server.rest.servers import CRASH


class Known(NamedTuple):
    """A known difference."""

    request: str
    """A pattern of method, path and query."""
    line: str
    """A pattern of what differs, or of what the real server says."""
    reason: str


KNOWN = (
    Known("/daemonsets", "metadata.annotations.*should not be there", "metadata by itself has every annotation"),
    Known("/scale", r"columnDefinitions\[0\].format", "the column of names says so in the table of a scale too"),
    Known("/poddisruptionbudgets", "metadata.labels", "metadata is checked also where the spec is wrong"),
    Known("PATCH .*podtemplates", "FieldManagerConflict.*command", "empty lists and maps stay as sent"),
    Known(".", "httpGet.scheme", "null is no scheme, and is not left out"),
    Known("/leases", "code: 409, should be 400", "a name that is taken is found before a time of too few digits"),
    Known("PATCH", "should be -?[0-9]{10}|-2147483648", "numbers beyond 32 bits are refused instead of wrapped around"),
    Known("PATCH", "FieldValueInvalid., .patch.*should be \\[\\]", "what is wrong with a patch's result is said"),
    Known("/services/.*/status", "code: 404", "a status of a Service that is not there is not looked at"),
    Known(
        "/controllerrevisions",
        "'data'|code: 400, should be 4(04|22)",
        "states are compared by their values, not by their bytes",
    ),
    Known("limit=", "remainingItemCount", "said also of lists at resourceVersion 0"),
    Known(".", r"(\[\]|\{\}), should not be there|missing, should be \{\}", "empty lists and maps stay as sent"),
    Known(".", "hides previous definition", "nobody is warned of a variable of a pod that hides another"),
    Known(".", r"'', should not be there", "empty texts stay as sent"),
    Known("/(cluster)?roles", r"rules: (missing|\[\]), should be None", "null and missing say the same"),
    Known("/(persistentvolumeclaims|jobs)", "fractional byte value", "nobody is warned of fractions of bytes"),
    Known("POST .*/configmaps", "code: 400, should be 409", "a body that is no object is refused before its name is"),
    Known(".", CRASH, "the real server fails at it"),
    Known("PATCH", "code: 400, should be 500", "a patch that does not fit is the client's mistake"),
    Known(
        "/(deployments|replicasets|statefulsets|daemonsets|cronjobs|jobs)",
        "Probe|valueFrom|restartPolicy",
        "checked in part",
    ),
    Known("POST .*/services", "clusterIP", "each server chooses addresses of its range"),
    Known("PUT .*dryRun=All", "resourceVersion: missing", "an object that a dry run of an update makes has no version"),
    Known("PATCH .*/poddisruptionbudgets", "generation", "counted also where a patch changes nothing but order"),
    Known("/services", "spec.ipFamilies", "the ports of a Service are checked before its families"),
)


def reason_for(difference: Difference) -> str:
    """Return why an answer is known to differ; empty where it is not."""
    step = difference.step
    request, text = f"{step.method} {step.path}?{step.query}", "\n".join(difference.lines)
    return next((one.reason for one in KNOWN if re.search(one.request, request) and re.search(one.line, text)), "")
