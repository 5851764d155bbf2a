"""`ImageManager`: provides the image of a container, pulled if need be, as the kubelet's image manager does.

Source: Kubernetes' ``pkg/kubelet/images``: policies, reasons and events. Two rules are this node's own. An imported
image has no registry to compare it with, so it satisfies ``Always``. And without strict images a container whose image
is missing runs on this machine's own root, if that has its command.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Protocol

from strato.api.core import Container, Pod, Secret
from strato.clock import Clock
from strato.errors import ApiError, StratoError, one_line
from strato.node.images.credentials import (
    DOCKER_CONFIG,
    DOCKER_CONFIG_JSON,
    BadCredentials,
    Credential,
    docker_credentials,
    parse_config,
)
from strato.node.images.puller import ImagePuller, PullFailed
from strato.node.images.references import ImageReference, InvalidImageName, parse_reference
from strato.node.images.store import HOST_IMAGE, Image
from strato.node.sandbox.environment import References
from strato.node.sandbox.machine import Machine

ERR_IMAGE_PULL, IMAGE_PULL_BACK_OFF = "ErrImagePull", "ImagePullBackOff"
NEVER_PULL, INVALID_NAME = "ErrImageNeverPull", "InvalidImageName"
_LOOK_SECONDS = 2.0
"""Seconds between two checks whether a missing image has been imported."""

Event = Callable[[str, str, str], None]


class ImageUnavailable(StratoError):
    """The image of a container is not available now.

    Attributes:
        reason: Reason of the container's waiting state.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class CommandSource(Protocol):
    """Provides a container's program."""

    def machines_command(self, container: Container) -> str:
        """Return the program of a container's command if this machine has it, else empty."""


class ImageManager:
    """See the module."""

    def __init__(self, machine: Machine, clock: Clock) -> None:
        self._machine = machine
        self._clock = clock
        self._settings = machine.image_policy.registries
        self._puller = ImagePuller(machine.images, self._settings)

    async def ensure(self, pod: Pod, container: Container, commands: CommandSource, event: Event) -> Image:
        """Return the image on which a container starts, pulled if need be.

        Raises:
            ImageUnavailable: There is no image for now.
            ConfigProblem: A reference in the container's spec cannot be resolved.
        """
        name, policy, store = container.image, container.image_pull_policy, self._machine.images
        try:
            reference = parse_reference(name)
        except InvalidImageName as err:
            event("Warning", "InspectFailed", f"Failed to apply default image tag {quoted(name)}: {err}")
            raise ImageUnavailable(INVALID_NAME, str(err)) from err
        image = store.find(name)
        if image is None and not self._machine.image_policy.strict and commands.machines_command(container):
            return self._substitute(container, event)
        if image is not None and (policy != "Always" or not image.repo_digest):
            event("Normal", "Pulled", f"Container image {quoted(name)} already present on machine")
        elif policy == "Never":
            message = f"Container image {quoted(name)} is not present with pull policy of Never"
            event("Warning", NEVER_PULL, message)
            raise ImageUnavailable(NEVER_PULL, f"{message}; {_advice(name)}")
        else:
            image = await self._pull(pod, name, reference, event)
        store.touch(image)
        return image

    def _substitute(self, container: Container, event: Event) -> Image:
        self._machine.substituted += 1
        message = (
            f"Image {container.image!r} is not in the local store; container {container.name} runs on this machine's "
            f"own root ({HOST_IMAGE}, read-only); `strato image pull {container.image}` fetches it"
        )
        event("Warning", "ImageSubstituted", message)
        return Image(HOST_IMAGE, "")

    async def _pull(self, pod: Pod, name: str, reference: ImageReference, event: Event) -> Image:
        event("Normal", "Pulling", f"Pulling image {quoted(name)}")
        began = self._clock.monotonic()
        try:
            image = await self._puller.pull(reference, await self._credentials(pod, reference, event))
        except (PullFailed, BadCredentials) as err:
            event("Warning", "Failed", f"Failed to pull image {quoted(name)}: {one_line(err)}")
            raise ImageUnavailable(ERR_IMAGE_PULL, f"{one_line(err)}; {_advice(name)}") from err
        took = f"{self._clock.monotonic() - began:.3f}s"
        message = f"Successfully pulled image {quoted(name)} in {took} ({took} including waiting)."
        event("Normal", "Pulled", f"{message} Image size: {image.size_bytes} bytes.")
        return image

    async def _credentials(self, pod: Pod, reference: ImageReference, event: Event) -> list[Credential]:
        """Return the credentials for an image: of the pod's Secrets, then of this user's Docker configuration."""
        found: list[Credential] = []
        missing: list[str] = []
        for named in pod.spec.image_pull_secrets:
            try:
                secret = await self._machine.cluster.get(Secret, named.name, pod.metadata.namespace)
                data = References(secrets={named.name: secret}).secret_data(named.name, optional=False) or {}
                for key in (DOCKER_CONFIG_JSON, DOCKER_CONFIG):
                    if key in data:
                        config = parse_config(data[key], f"secret {named.name!r}", is_old=key == DOCKER_CONFIG)
                        found += config.matching(reference)
            except (ApiError, StratoError):
                missing.append(named.name)
        if missing:
            message = f"Unable to retrieve some image pull secrets ({', '.join(missing)})"
            event(
                "Warning",
                "FailedToRetrieveImagePullSecret",
                f"{message}; attempting to pull the image may not succeed.",
            )
        return [*found, *await docker_credentials(reference, self._settings.environ)]

    async def wait_for(self, container: Container, seconds: float) -> None:
        """Wait; returns early when a container's image has been imported meanwhile."""
        until = self._clock.monotonic() + seconds
        before = self._machine.images.find(container.image)
        while (left := until - self._clock.monotonic()) > 0:
            await self._clock.sleep(min(left, _LOOK_SECONDS))
            if self._machine.images.find(container.image) != before:
                return


def quoted(name: str) -> str:
    """Return a name quoted as in the kubelet's events."""
    return json.dumps(name)


def _advice(name: str) -> str:
    return (
        f"`strato image import {name} DIR|TAR` adds it from files; to use this machine's own root, name {HOST_IMAGE}, "
        "or start the node with --no-strict-images"
    )
