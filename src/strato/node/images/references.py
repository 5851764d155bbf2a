"""Names of images: ``busybox``, ``ghcr.io/team/tool:1.2``, ``registry:5000/x@sha256:…``. Pure.

Source: the grammar of the distribution project's ``reference`` and Docker's rules for names without a registry.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from strato.errors import UsageError

DOCKER_HUB, _LIBRARY, LATEST = "docker.io", "library/", "latest"
_LONGEST_NAME = 255
_NAME = re.compile(r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*")
_REGISTRY = re.compile(
    r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*|\[[0-9A-Fa-f:]+\])"
    r"(?::[0-9]{1,5})?"
)
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


class InvalidImageName(UsageError):
    """A text is no valid name of an image."""


@dataclass(frozen=True, slots=True)
class ImageReference:
    """The parts of an image's name."""

    registry: str
    """Host and port."""
    repository: str
    tag: str = ""
    digest: str = ""
    """If there is a tag too, the digest takes precedence."""

    @property
    def version(self) -> str:
        """The digest, or else the tag, which is requested from a registry."""
        return self.digest or self.tag

    @property
    def name(self) -> str:
        """Repository with its registry."""
        return f"{self.registry}/{self.repository}"

    @property
    def familiar(self) -> str:
        """The shortest form of the name; equal for all names of the same image."""
        name = self.name.removeprefix(f"{DOCKER_HUB}/").removeprefix(_LIBRARY)
        return f"{name}@{self.digest}" if self.digest else f"{name}:{self.tag}"


def parse_reference(text: str) -> ImageReference:
    """Parse an image's name; without tag and digest its tag is ``latest``.

    Raises:
        InvalidImageName: The text is no valid name.
    """
    rest, at, digest = text.partition("@")
    name, colon, tag = rest.rpartition(":")
    if not colon or "/" in tag:
        name, tag, colon = rest, "", ""
    first, slash, remainder = name.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost" or first.lower() != first):
        registry, repository = first, remainder
    else:
        registry, repository = DOCKER_HUB, name
    if registry in ("index.docker.io", "registry-1.docker.io"):
        registry = DOCKER_HUB
    if registry == DOCKER_HUB and "/" not in repository:
        repository = _LIBRARY + repository
    problem = ""
    if at and not DIGEST.fullmatch(digest):
        problem = f"{digest!r} is no sha256 digest"
    elif colon and not _TAG.fullmatch(tag):
        problem = f"{tag!r} is no tag"
    elif not _REGISTRY.fullmatch(registry):
        problem = f"{registry!r} is no registry's host"
    elif not _NAME.fullmatch(repository) or len(name) > _LONGEST_NAME:
        problem = "a repository's name is lower-case letters, digits and . _ - / between them, at most 255"
    if problem:
        raise InvalidImageName(f"image name {text!r} is invalid: {problem}; write for example tools:1")
    return ImageReference(registry, repository, tag if tag or digest else LATEST, digest)
