"""HyperNode admission (spec volcano-api 20); selectors' shape is left to the CRD's own rules."""

from __future__ import annotations

from strato.admission.request import AdmissionReader, AdmissionRequest, Denied
from strato.api.patterns import InvalidPattern, compile_pattern

WEBHOOK = "validatehypernode.volcano.sh"


def validate(request: AdmissionRequest, reader: AdmissionReader) -> None:
    """Check that there are members and that their patterns compile."""
    assert request.object is not None
    members = (request.object.get("spec") or {}).get("members") or ()
    if not members:
        raise Denied(WEBHOOK, "spec.members: Required value: member must have at least one member")
    problems = []
    for index, member in enumerate(members):
        pattern = ((member.get("selector") or {}).get("regexMatch") or {}).get("pattern")
        if pattern is not None and (problem := _pattern_problem(pattern)):
            place = f"spec.members[{index}].selector.regexMatch.pattern"
            problems.append(f'{place}: Invalid value: "{pattern}": member regexMatch pattern is invalid: {problem}')
    if problems:
        raise Denied(WEBHOOK, problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")


def _pattern_problem(pattern: str) -> str:
    """Return why a pattern does not compile, or ""."""
    try:
        compile_pattern(pattern)
    except InvalidPattern as error:
        return f"error parsing regexp: {error}"
    return ""
