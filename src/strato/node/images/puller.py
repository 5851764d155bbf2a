"""Pull images into the store from mirrors and registries, trying all credentials, and push images from files."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from strato.errors import StateError, one_line
from strato.node.images.archives import BlobFolder, ImageSource
from strato.node.images.credentials import Credential
from strato.node.images.documents import (
    OCI_CONFIG,
    OCI_LAYER,
    Descriptor,
    ImageManifest,
    config_of,
    digest_of_bytes,
    manifest_body,
)
from strato.node.images.references import ImageReference
from strato.node.images.registry import Progress, RegistryProblem, RegistrySettings, Repository, endpoints
from strato.node.images.rootwriter import MAX_BYTES, BadImage, Budget
from strato.node.images.store import Image, ImageStore

_LAYERS_AT_ONCE = 3
_ATTEMPTS = 3
"""Attempts to download one blob when connections break."""
_REFUSED = (401, 403)


class PullFailed(StateError):
    """An image cannot be pulled; the message has the reason of each mirror and registry that was tried."""


@dataclass(slots=True)
class _Pull:
    """A pull in progress, and how many callers wait for it."""

    task: asyncio.Task[Image]
    waiting: int = 0


class ImagePuller:
    """Pulls images; concurrent requests for one image share one pull.

    Args:
        max_bytes: Images that are larger when unpacked are refused.
    """

    def __init__(self, store: ImageStore, settings: RegistrySettings, max_bytes: int = MAX_BYTES) -> None:
        self._store = store
        self._settings = settings
        self._max_bytes = max_bytes
        self._pulls: dict[tuple[ImageReference, tuple[Credential, ...]], _Pull] = {}

    async def pull(
        self, reference: ImageReference, credentials: Sequence[Credential] = (), progress: Progress = lambda *_: None
    ) -> Image:
        """Bring an image into the store, or up to date there; does not fetch layers that the store has.

        Raises:
            PullFailed: No mirror or registry serves a usable image.
        """
        key = (reference, tuple(credentials))
        pull = self._pulls.get(key)
        if pull is None:
            pull = self._pulls[key] = _Pull(asyncio.create_task(self._pull(reference, credentials, progress)))
            pull.task.add_done_callback(lambda _: self._pulls.pop(key, None))
        pull.waiting += 1
        try:
            return await asyncio.shield(pull.task)
        finally:
            pull.waiting -= 1
            if not pull.waiting and not pull.task.done():
                self._pulls.pop(key, None)
                pull.task.cancel()
                await asyncio.gather(pull.task, return_exceptions=True)

    async def _pull(self, reference: ImageReference, credentials: Sequence[Credential], progress: Progress) -> Image:
        problems: list[str] = []
        for endpoint in endpoints(reference.registry, self._settings):
            # a mirror may belong to somebody else, so it gets no credentials of the registry
            asking: Sequence[Credential | None] = credentials if credentials and not endpoint.is_mirror else (None,)
            for credential in asking:
                repository = Repository(endpoint, reference, credential, self._settings)
                try:
                    return await self._pull_from(repository, reference, progress)
                except (RegistryProblem, BadImage, OSError) as err:
                    problems.append(one_line(err))
                    if not (isinstance(err, RegistryProblem) and err.status in _REFUSED):
                        break
        raise PullFailed("; ".join(problems))

    async def _pull_from(self, repository: Repository, reference: ImageReference, progress: Progress) -> Image:
        digest, manifest = await repository.resolve()
        if sum(layer.size for layer in manifest.layers) > self._max_bytes:
            raise BadImage(f"its layers are larger than {self._max_bytes} bytes; see --max-size")
        with ExitStack() as stack:
            folder = await asyncio.to_thread(stack.enter_context, self._store.scratch())
            blobs = _Pulled(folder, manifest)
            os.makedirs(os.path.dirname(blobs.path(manifest.config.digest)))
            await self._download(repository, blobs, manifest.config, progress)
            _, diff_ids = config_of(blobs.document(manifest.config), len(manifest.layers))
            missing = dict.fromkeys(manifest.layers[await asyncio.to_thread(self._store.has_layers, diff_ids) :])
            slots = asyncio.Semaphore(_LAYERS_AT_ONCE)

            async def fetch(layer: Descriptor) -> None:
                async with slots:
                    await self._download(repository, blobs, layer, progress)

            fetching = [asyncio.create_task(fetch(layer)) for layer in missing]
            try:
                await asyncio.gather(*fetching)
            finally:
                for task in fetching:
                    task.cancel()
                await asyncio.gather(*fetching, return_exceptions=True)
            return await self._unpack(reference, blobs, f"{reference.name}@{digest}")

    async def _download(self, repository: Repository, blobs: BlobFolder, blob: Descriptor, progress: Progress) -> None:
        for attempt in range(_ATTEMPTS):
            with open(blobs.path(blob.digest), "wb") as file:
                try:
                    await repository.download(blob, file, progress)
                    return
                except RegistryProblem as err:
                    if attempt == _ATTEMPTS - 1 or err.status:
                        raise

    async def _unpack(self, reference: ImageReference, blobs: ImageSource, repo_digest: str) -> Image:
        budget = Budget(self._max_bytes)

        def add() -> Image:
            with self._store.alone():
                return self._store.add(reference.familiar, blobs, budget, repo_digest)

        unpacking = asyncio.create_task(asyncio.to_thread(add))
        try:
            return await asyncio.shield(unpacking)
        except asyncio.CancelledError:
            budget.is_cancelled = True  # stops the unpacking thread: the blobs are removed when this function returns
            await asyncio.gather(unpacking, return_exceptions=True)
            raise


class _Pulled(BlobFolder):
    """The fetched parts of an image."""

    def __init__(self, directory: str, manifest: ImageManifest) -> None:
        super().__init__(directory)
        self._manifest = manifest

    def manifest(self) -> ImageManifest:
        """Return the manifest from the registry."""
        return self._manifest


async def push(
    reference: ImageReference,
    source: ImageSource,
    credentials: Sequence[Credential],
    settings: RegistrySettings,
    progress: Progress,
) -> str:
    """Upload an image from files to a registry; return the digest of its manifest.

    Raises:
        PullFailed: The registry refuses the image.
        BadImage: The image cannot be read.
    """
    manifest = source.manifest()
    layers = tuple(replace(layer, media_type=layer.media_type or OCI_LAYER) for layer in manifest.layers)
    text = manifest_body(
        ImageManifest(replace(manifest.config, media_type=manifest.config.media_type or OCI_CONFIG), layers)
    )
    problems: list[str] = []
    for endpoint in endpoints(reference.registry, settings, mirrors=False):
        asking: Sequence[Credential | None] = credentials or (None,)
        for credential in asking:
            repository = Repository(endpoint, reference, credential, settings, "pull,push")
            try:
                for blob in dict.fromkeys((manifest.config, *manifest.layers)):
                    with source.open(blob) as file:
                        await repository.upload(blob, file, progress)
                await repository.put_manifest(text)
            except RegistryProblem as err:
                problems.append(one_line(err))
                if err.status not in _REFUSED:
                    break
            else:
                return digest_of_bytes(text)
    raise PullFailed("; ".join(problems))
