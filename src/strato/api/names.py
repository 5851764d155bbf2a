"""Kubernetes' rules for names, labels and keys, with its messages.

Every check returns a list of messages, empty when the value is valid. A message is the text that follows ``Invalid
value: "x": `` in a field cause.
"""

from __future__ import annotations

import ipaddress
import re

from strato.lru import memoised

LABEL_MAX = 63
SUBDOMAIN_MAX = 253

_LABEL_FORM = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN_FORM = _LABEL_FORM + r"(\." + _LABEL_FORM + ")*"
_LABEL_1035_FORM = "[a-z]([-a-z0-9]*[a-z0-9])?"
_WILDCARD_FORM = r"\*\." + _SUBDOMAIN_FORM
_QUALIFIED_FORM = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE_FORM = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?"
_CONFIG_KEY_FORM = "[-._a-zA-Z0-9]+"

_LABEL = re.compile(_LABEL_FORM).fullmatch
_SUBDOMAIN = re.compile(_SUBDOMAIN_FORM).fullmatch
_WILDCARD = re.compile(_WILDCARD_FORM).fullmatch
_LABEL_1035 = re.compile(_LABEL_1035_FORM).fullmatch
_QUALIFIED = re.compile(_QUALIFIED_FORM).fullmatch
_LABEL_VALUE = re.compile(_LABEL_VALUE_FORM).fullmatch
_CONFIG_KEY = re.compile(_CONFIG_KEY_FORM).fullmatch
_PORT_CHARS = re.compile(r"[-a-z0-9]+").fullmatch
_PRINTABLE_ENV = re.compile(r"[ -<>-~]+").fullmatch

_LABEL_MESSAGE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end "
    "with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '" + _LABEL_FORM + "')"
)
_SUBDOMAIN_MESSAGE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "
    "and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '"
    + _SUBDOMAIN_FORM
    + "')"
)
_LABEL_1035_MESSAGE = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '"
    + _LABEL_1035_FORM
    + "')"
)
_WILDCARD_MESSAGE = (
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of "
    "lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', "
    f"regex used for validation is '{_WILDCARD_FORM}')"
)
_QUALIFIED_MESSAGE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '" + _QUALIFIED_FORM + "')"
)
_QUALIFIED_BARE_MESSAGE = (
    "a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '"
    + _QUALIFIED_FORM
    + "') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
)
_LABEL_VALUE_MESSAGE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '"
    + _LABEL_VALUE_FORM
    + "')"
)
_CONFIG_KEY_MESSAGE = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  "
    "or 'key-name', regex used for validation is '" + _CONFIG_KEY_FORM + "')"
)
_ENV_MESSAGE = "a valid environment variable name must consist only of printable ASCII characters other than '='"
NO_ADDRESS = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_PREFIX_EMPTY = "prefix part must be non-empty"


def _too_long(limit: int) -> str:
    return f"must be no more than {limit} bytes"


def _too_many(limit: int) -> str:
    return f"must be no more than {limit} characters"


@memoised(32 << 20)
def is_label(value: str) -> bool:
    """Whether the value is an RFC 1123 label."""
    return len(value) <= LABEL_MAX and _LABEL(value) is not None


def check_label(value: str) -> list[str]:
    """Return why the value is no RFC 1123 label."""
    problems = [_too_many(LABEL_MAX)] if len(value) > LABEL_MAX else []
    if _LABEL(value) is None:
        if _SUBDOMAIN(value) is not None:
            problems.append("must not contain dots")
        else:
            problems.append(_LABEL_MESSAGE)
    return problems


def check_subdomain(value: str) -> list[str]:
    """Return why the value is no RFC 1123 subdomain."""
    problems = [_too_many(SUBDOMAIN_MAX)] if len(value) > SUBDOMAIN_MAX else []
    if _SUBDOMAIN(value) is None:
        problems.append(_SUBDOMAIN_MESSAGE)
    return problems


def check_wildcard_subdomain(value: str) -> list[str]:
    """Return why the value is not ``*.`` and a subdomain."""
    problems = [] if len(value) <= SUBDOMAIN_MAX else [_too_long(SUBDOMAIN_MAX)]
    return problems if _WILDCARD(value) else [*problems, _WILDCARD_MESSAGE]


def check_label_1035(value: str) -> list[str]:
    """Return why the value is no RFC 1035 label (names of services)."""
    problems = [_too_long(LABEL_MAX)] if len(value) > LABEL_MAX else []
    if _LABEL_1035(value) is None:
        problems.append(_LABEL_1035_MESSAGE)
    return problems


def check_path_segment(value: str) -> list[str]:
    """Return why the value cannot be a segment of a URL path (RBAC names)."""
    if value in (".", ".."):
        return [f"may not be '{value}'"]
    return [f"may not contain '{bad}'" for bad in ("/", "%") if bad in value]


@memoised(8 << 20)
def is_qualified_name(value: str) -> bool:
    """Whether the value is ``[prefix/]name``: a label or annotation key, a resource name."""
    return not check_qualified_name(value)


def check_qualified_name(value: str) -> list[str]:
    """Return why the value is no qualified name."""
    problems: list[str] = []
    prefix, slash, name = value.rpartition("/")
    if "/" in prefix:
        return [_QUALIFIED_BARE_MESSAGE]
    if slash:
        if not prefix:
            problems.append(_PREFIX_EMPTY)
        else:
            problems.extend("prefix part " + text for text in check_subdomain(prefix))
    if not name:
        problems.append("name part must be non-empty")
    elif len(name) > LABEL_MAX:
        problems.append("name part " + _too_long(LABEL_MAX))
    if _QUALIFIED(name) is None:
        problems.append(_QUALIFIED_MESSAGE)
    return problems


@memoised(32 << 20)
def is_label_value(value: str) -> bool:
    """Whether the value may be the value of a label."""
    return len(value) <= LABEL_MAX and _LABEL_VALUE(value) is not None


def check_label_value(value: str) -> list[str]:
    """Return why the value may not be the value of a label."""
    problems = [_too_long(LABEL_MAX)] if len(value) > LABEL_MAX else []
    if _LABEL_VALUE(value) is None:
        problems.append(_LABEL_VALUE_MESSAGE)
    return problems


def check_config_key(value: str) -> list[str]:
    """Return why the value may not be a key of a ConfigMap or Secret."""
    problems = [f"must be no more than {SUBDOMAIN_MAX} characters"] if len(value) > SUBDOMAIN_MAX else []
    if _CONFIG_KEY(value) is None:
        problems.append(_CONFIG_KEY_MESSAGE)
    if value == ".":
        problems.append("must not be '.'")
    elif value == "..":
        problems.append("must not be '..'")
    elif value.startswith(".."):
        problems.append("must not start with '..'")
    return problems


@memoised(2 << 20)
def is_env_name(value: str) -> bool:
    """Whether the value may be the name of an environment variable."""
    return _PRINTABLE_ENV(value) is not None


def check_env_name(value: str) -> list[str]:
    """Return why the value may not be the name of an environment variable."""
    return [] if _PRINTABLE_ENV(value) is not None else [_ENV_MESSAGE]


def check_port_name(value: str) -> list[str]:
    """Return why the value may not be the name of a port."""
    problems: list[str] = []
    if len(value) > 15:
        problems.append("must be no more than 15 characters")
    if _PORT_CHARS(value) is None:
        problems.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", value):
        problems.append("must contain at least one letter (a-z)")
    if "--" in value:
        problems.append("must not contain consecutive hyphens")
    if value[:1] == "-" or value[-1:] == "-":
        problems.append("must not begin or end with a hyphen")
    return problems


def check_port_number(value: int) -> list[str]:
    """Return why the value is no port number."""
    return [] if 1 <= value <= 65535 else ["must be between 1 and 65535, inclusive"]


def check_ip(value: str) -> list[str]:
    """Return why the value is no IP address."""
    return [NO_ADDRESS] if parse_ip(value) is None else []


def parse_ip(value: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return an IP address, which has no zone; None if the value is none."""
    try:
        return ipaddress.ip_address(value) if "%" not in value else None
    except ValueError:
        return None
