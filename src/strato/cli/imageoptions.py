"""Options about registries and which of their images a node takes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click
import msgspec

from strato.cli.optiongroups import option_group

if TYPE_CHECKING:
    from strato.node.images.registry import RegistrySettings
    from strato.node.sandbox.settings import ImagePolicy


class ImageOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Where images come from."""

    strict_images: bool = True
    registry_mirror: tuple[tuple[str, str], ...] = ()
    """Registry and URL of its mirror, in the order in which mirrors are tried."""
    insecure_registry: tuple[str, ...] = ()

    def registries(self) -> RegistrySettings:
        """Return the client settings for registries, of these options and this process's environment."""
        from strato.node.images.registry import RegistrySettings

        mirrors: dict[str, list[str]] = {}
        for registry, url in self.registry_mirror:
            mirrors.setdefault(registry, []).append(url)
        return RegistrySettings(mirrors, frozenset(self.insecure_registry), dict(os.environ))

    def policy(self) -> ImagePolicy:
        """Return which images a node accepts."""
        from strato.node.sandbox.settings import ImagePolicy

        return ImagePolicy(strict=self.strict_images, registries=self.registries())


class _MirrorType(click.ParamType[tuple[str, str]]):
    name = "registry=url"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """Check the text."""
        registry, _, url = value.partition("=")
        parts = urlsplit(url)
        if not registry or parts.scheme not in ("http", "https") or not parts.hostname:
            self.fail(
                f"{value!r} is no REGISTRY=URL; write for example docker.io=https://mirror.example.org", param, ctx
            )
        return registry, url


_STRICT = click.option(
    "--strict-images/--no-strict-images",
    default=True,
    show_default=True,
    help="Pull images that are not there; or run a container on this machine's own root, if that has its command.",
)
_REGISTRIES = (
    click.option(
        "--registry-mirror",
        multiple=True,
        type=_MirrorType(),
        metavar="REGISTRY=URL",
        help="Ask URL for REGISTRY's images first (* for all registries'); without REGISTRY's credentials.",
    ),
    click.option(
        "--insecure-registry",
        multiple=True,
        metavar="HOST[:PORT]",
        help="Do not check this registry's certificate; it may speak plain HTTP. This machine's own always may.",
    ),
)
registry_options = option_group("images", ImageOptions, _REGISTRIES)
"""Adds the options about registries to a command, which takes them as ``images``."""
image_options = option_group("images", ImageOptions, (_STRICT, *_REGISTRIES))
"""Adds all options about images to a command, which takes them as ``images``."""
