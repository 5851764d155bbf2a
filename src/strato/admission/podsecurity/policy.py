"""A namespace's policy: which pod security standard, of which Kubernetes version, it enforces, audits and warns about.

Source: Kubernetes' Pod Security Admission, labels ``pod-security.kubernetes.io/*``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import IntEnum

from strato.api.status import invalid_value
from strato.errors import Cause

PREFIX = "pod-security.kubernetes.io/"
_VERSION = re.compile(r"v1\.(0|[1-9][0-9]{0,8})")
LATEST = 1 << 30
"""Stands for the version ``latest``: newer than all."""


class PodSecurityLevel(IntEnum):
    """A pod security standard; a higher one allows less."""

    PRIVILEGED = 0
    BASELINE = 1
    RESTRICTED = 2


_LEVELS = {level.name.lower(): level for level in PodSecurityLevel}


@dataclass(frozen=True, slots=True)
class Standard:
    """A level as it is in one Kubernetes version."""

    level: PodSecurityLevel = PodSecurityLevel.PRIVILEGED
    minor: int = LATEST

    def __str__(self) -> str:
        """Return it as Kubernetes writes it: ``restricted:latest``, ``baseline:v1.30``."""
        return f"{self.level.name.lower()}:{'latest' if self.minor == LATEST else f'v1.{self.minor}'}"


@dataclass(frozen=True, slots=True)
class NamespaceStandards:
    """The standards that a namespace enforces, audits and warns about."""

    enforce: Standard = Standard()
    audit: Standard = Standard()
    warn: Standard = Standard()

    @property
    def is_privileged(self) -> bool:
        """Whether all three are ``privileged``, so that nothing is refused, audited or warned about."""
        return not (self.enforce.level or self.audit.level or self.warn.level)


def policy_of(labels: Mapping[str, str] | None) -> tuple[NamespaceStandards, list[Cause]]:
    """Return a namespace's policy and what is wrong with its labels.

    A level that cannot be read is ``restricted`` where it is enforced, and ``privileged`` elsewhere.
    """
    policy, causes = NamespaceStandards(), list[Cause]()
    if not labels or not any(label.startswith(PREFIX) for label in labels):
        return policy, causes
    modes = {
        mode: _standard(
            labels, mode, PodSecurityLevel.RESTRICTED if mode == "enforce" else PodSecurityLevel.PRIVILEGED, causes
        )
        for mode in ("enforce", "audit", "warn")
    }
    enforce, warn = modes["enforce"], modes["warn"]
    if (
        _LEVELS.get(labels.get(f"{PREFIX}enforce", "")) is not None
        and f"{PREFIX}warn" not in labels
        and enforce.level > warn.level
    ):
        minor = warn.minor if f"{PREFIX}warn-version" in labels else enforce.minor
        warn = replace(enforce, minor=minor)
    return NamespaceStandards(enforce, modes["audit"], warn), causes


def _standard(labels: Mapping[str, str], mode: str, fallback: PodSecurityLevel, causes: list[Cause]) -> Standard:
    level, minor = PodSecurityLevel.PRIVILEGED, LATEST
    name, version = labels.get(PREFIX + mode), labels.get(f"{PREFIX}{mode}-version")
    if name is not None:
        found = _LEVELS.get(name)
        level = fallback if found is None else found
        if found is None:
            text = "must be one of privileged, baseline, restricted"
            causes.append(invalid_value(f"metadata.labels[{PREFIX}{mode}]", name, text))
    if version is not None and version != "latest":
        match = _VERSION.fullmatch(version)
        if match is None:
            text = 'must be "latest" or "v1.x"'
            causes.append(invalid_value(f"metadata.labels[{PREFIX}{mode}-version]", version, text))
        else:
            minor = int(match[1])
    return Standard(level, minor)
