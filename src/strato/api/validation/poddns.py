"""Rules of a pod's own names: its resolver's configuration, and further entries of its hosts file."""

from __future__ import annotations

import re

from strato.api import names
from strato.api.meta import Json
from strato.api.status import invalid_value, invalid_values, required
from strato.api.validation.addresses import read_address
from strato.errors import Cause

_MOST_SERVERS, _MOST_SEARCHES, _SEARCH_CHARACTERS = 3, 32, 2048
_LABEL = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_is_search = re.compile(_SUBDOMAIN).fullmatch
_NO_SEARCH = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must "
    f"start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
)


def validate_dns(spec: Json, field: str, causes: list[Cause]) -> None:
    """Check ``dnsConfig`` of a pod spec; the policy None needs a server there."""
    config = spec.get("dnsConfig")
    if spec.get("dnsPolicy") == "None":
        if config is None:
            causes.append(required(field, "must provide `dnsConfig` when `dnsPolicy` is None"))
            return
        if not config.get("nameservers"):
            text = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            causes.append(required(f"{field}.nameservers", text))
            return
    if config is None:
        return
    servers, searches = config.get("nameservers") or [], config.get("searches") or []
    if len(servers) > _MOST_SERVERS:
        text = f"must not have more than {_MOST_SERVERS} nameservers"
        causes.append(invalid_value(f"{field}.nameservers", servers, text))
    for index, server in enumerate(servers):
        _validate_address(server, f"{field}.nameservers[{index}]", causes)
    if len(searches) > _MOST_SEARCHES:
        text = f"must not have more than {_MOST_SEARCHES} search paths"
        causes.append(invalid_value(f"{field}.searches", searches, text))
    if sum(map(len, searches)) + max(0, len(searches) - 1) > _SEARCH_CHARACTERS:
        text = f"must not have more than {_SEARCH_CHARACTERS} characters (including spaces) in the search list"
        causes.append(invalid_value(f"{field}.searches", searches, text))
    for index, search in enumerate(searches):
        if search != ".":
            _validate_search(search.removesuffix("."), f"{field}.searches[{index}]", causes)
    for index, option in enumerate(config.get("options") or ()):
        if not option.get("name"):
            causes.append(required(f"{field}.options[{index}]", "must not be empty"))


def validate_host_aliases(aliases: list[Json], field: str, causes: list[Cause]) -> None:
    """Check addresses and names of the entries."""
    for index, alias in enumerate(aliases):
        _validate_address(alias.get("ip") or "", f"{field}[{index}].ip", causes)
        for number, name in enumerate(alias.get("hostnames") or ()):
            at = f"{field}[{index}].hostnames[{number}]"
            causes += invalid_values(at, name, names.check_subdomain(name))


def _validate_address(text: str, field: str, causes: list[Cause]) -> None:
    _, problem = read_address(text)
    if problem:
        causes.append(invalid_value(field, text, problem))


def _validate_search(search: str, field: str, causes: list[Cause]) -> None:
    if len(search) > names.SUBDOMAIN_MAX:
        causes.append(invalid_value(field, search, f"must be no more than {names.SUBDOMAIN_MAX} characters"))
    if len(search) > _SEARCH_CHARACTERS or not _is_search(search):
        causes.append(invalid_value(field, search, _NO_SEARCH))
