"""Rules of ServiceCIDRs and IPAddresses."""

from __future__ import annotations

from strato.api import names
from strato.api.meta import Json
from strato.api.status import invalid_value, required
from strato.api.validation.addresses import read_address, read_range
from strato.api.validation.metadata import immutable
from strato.errors import Cause

_CIDRS = "spec.cidrs"


def check_ip_name(value: str) -> list[str]:
    """Return why a name is no IP address in its canonical form."""
    address, problem = read_address(value)
    if problem:
        return [problem]
    return [] if str(address) == value else [f'must be in canonical form ("{address}")']


def validate_ip_address(obj: Json) -> list[Cause]:
    """Check the reference to the object that uses an IPAddress."""
    parent, at = (obj.get("spec") or {}).get("parentRef"), "spec.parentRef"
    if parent is None:
        return [required(at)]
    causes = [required(f"{at}.{member}") for member in ("resource", "name") if not parent.get(member)]
    for member in ("resource", "name", "namespace"):
        value = parent.get(member) or ""
        causes += [invalid_value(f"{at}.{member}", value, text) for text in names.check_path_segment(value) if value]
    group = parent.get("group") or ""
    return causes + [invalid_value(f"{at}.group", group, text) for text in names.check_subdomain(group) if group]


def validate_ip_address_update(obj: Json, old: Json) -> list[Cause]:
    """Refuse another parent."""
    new, before = ((one.get("spec") or {}).get("parentRef") for one in (obj, old))
    return [] if new == before else [immutable("spec.parentRef", new)]


def validate_service_cidr(obj: Json) -> list[Cause]:
    """Check the ranges: one, or one of each address family."""
    ranges = (obj.get("spec") or {}).get("cidrs") or []
    if not ranges:
        return [required(_CIDRS, "at least one CIDR required")]
    if len(ranges) > 2:
        return [invalid_value(_CIDRS, ranges, "may only hold up to 2 values")]
    causes, versions = [], set()
    for index, text in enumerate(ranges):
        found, problem = read_range(text)
        if found is not None and not problem and str(found) != text:
            problem = f'must be in canonical form ("{found}")'
        if problem:
            causes.append(invalid_value(f"{_CIDRS}[{index}]", text, problem))
        elif found is not None:
            versions.add(found.version)
    if len(ranges) == 2 and not causes and len(versions) == 1:
        text = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"
        causes.append(invalid_value(_CIDRS, ranges, text))
    return causes


def validate_service_cidr_update(obj: Json, old: Json) -> list[Cause]:
    """Refuse other ranges; a second one may be added."""
    new, before = ((one.get("spec") or {}).get("cidrs") or [] for one in (obj, old))
    if new[: len(before)] == before and (len(before), len(new)) == (1, 2):
        return validate_service_cidr(obj)
    if len(new) != len(before):
        return [immutable(_CIDRS, new)]
    changed = enumerate(zip(new, before, strict=True))
    return [immutable(f"{_CIDRS}[{index}]", one) for index, (one, other) in changed if one != other]
