"""Images come over the network as they were pushed, or not at all: a registry may be anybody."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gzip
import json
import os
import platform
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from strato.node.images.archives import OciLayout
from strato.node.images.credentials import Credential
from strato.node.images.puller import ImagePuller, PullFailed, push
from strato.node.images.references import parse_reference
from strato.node.images.registry import RegistrySettings
from strato.node.images.store import Image, ImageStore
from tests.node.registries import PASSWORD, USER, Handler, OwnRegistry, debian_registry, own_registry
from tests.node.test_image_imports import DIRECTORY, LINK, Layout, archive, links, member, untouched

ALICE = Credential(USER, PASSWORD)
HERE = {"os": "linux", "architecture": {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), "?")}
ELSEWHERE = {"os": "linux", "architecture": "elsewhere"}


@pytest.fixture
def registry() -> Iterator[OwnRegistry]:
    with own_registry() as server:
        yield server


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "machine").mkdir()
    (tmp_path / "machine" / "secret").write_text("secret")
    return tmp_path


def store_of(place: Path) -> ImageStore:
    return ImageStore(place / "node")


async def pulled(place: Path, name: str, *credentials: Credential, **settings: Any) -> Image:
    max_bytes = settings.pop("max_bytes", 1 << 30)
    puller = ImagePuller(store_of(place), RegistrySettings(**settings), max_bytes)
    return await puller.pull(parse_reference(name), credentials)


def texts(image: Image) -> dict[str, str]:
    root = Path(image.root)
    return {str(path.relative_to(root)): path.read_text() for path in root.rglob("*") if path.is_file()}


# Debian's


@pytest.mark.parametrize("authenticated", [False, True], ids=["open", "with htpasswd"])
async def test_what_is_pushed_to_debians_registry_comes_back(place: Path, authenticated: bool) -> None:
    layout = Layout(place / "layout")
    image = layout.image(archive(member("etc/a", b"1"), member("etc/b", b"2")), archive(member("etc/.wh.a")))
    layout.index(layout.document(image))
    credentials = [ALICE] if authenticated else []
    with debian_registry(place / "registry", authenticated=authenticated) as host:
        reference = parse_reference(f"{host}/team/tool:1")
        source = OciLayout(str(layout.directory))
        digest = await push(reference, source, credentials, RegistrySettings(), lambda *_: None)
        assert await push(reference, source, credentials, RegistrySettings(), lambda *_: None) == digest
        found = await pulled(place, reference.familiar, *credentials)
        assert texts(found) == {"etc/b": "2"}
        assert found.repo_digest == f"{host}/team/tool@{digest}"
        assert found.id == image["config"]["digest"]
        by_digest = await pulled(place, f"{host}/team/tool@{digest}", *credentials)
        assert by_digest.root == found.root
        if authenticated:
            for wrong in ([], [Credential(USER, "wrong")]):
                with pytest.raises(PullFailed, match="401"):
                    await pulled(place, reference.familiar, *wrong)
            assert texts(await pulled(place, reference.familiar, Credential("eve", "x"), ALICE)) == {"etc/b": "2"}
        with pytest.raises(PullFailed, match="404 MANIFEST_UNKNOWN"):
            await pulled(place, f"{host}/team/tool:2", *credentials)


# One that does what it is told


async def test_of_an_index_this_machines_image_is_taken(place: Path, registry: OwnRegistry) -> None:
    other = registry.put_image(archive(member("f", b"other")), tag="other")
    ours = registry.put_image(
        archive(member("f", b"ours")), tag="ours", Entrypoint=["/f"], User="7:8", Labels={"a": "b"}
    )
    inner = registry.put_index({**ours, "platform": HERE}, tag="inner")
    unknown = {"platform": {"os": "unknown", "architecture": "unknown"}}
    top = registry.put_index({**other, "platform": ELSEWHERE}, {**other, **unknown}, {**inner, "platform": HERE})
    found = await pulled(place, f"{registry.host}/a")
    assert texts(found) == {"f": "ours"}
    assert found.repo_digest == f"{registry.host}/a@{top['digest']}"
    assert (found.config.entrypoint, found.config.user, found.config.labels) == (("/f",), "7:8", {"a": "b"})
    registry.put_index({**other, "platform": ELSEWHERE}, tag="foreign")
    with pytest.raises(PullFailed, match="no image for this machine's platform"):
        await pulled(place, f"{registry.host}/a:foreign")


async def test_images_that_begin_alike_share_files_and_downloads(place: Path, registry: OwnRegistry) -> None:
    base = archive(member("base", os.urandom(2 << 20)))
    registry.put_image(base, archive(member("own", b"1")), tag="one")
    registry.put_image(base, archive(member("base/.wh.x"), member("own", b"2")), tag="two")
    one = await pulled(place, f"{registry.host}/a:one")
    digest = next(
        path for path, _ in registry.requests if "/blobs/" in path and len(registry.blobs[path[-71:]][1]) > 1 << 20
    )
    two = await pulled(place, f"{registry.host}/a:two")
    assert [path for path, _ in registry.requests].count(digest) == 1
    assert (Path(one.root) / "base").samefile(Path(two.root) / "base")
    assert ((Path(one.root) / "own").read_text(), (Path(two.root) / "own").read_text()) == ("1", "2")
    store = store_of(place)
    store.remove(one.name)
    assert (Path(two.root) / "base").exists()
    store.remove(two.name)
    assert list((place / "node" / "images" / ".roots").iterdir()) == []


async def test_pulls_of_one_image_at_once_are_one(place: Path, registry: OwnRegistry) -> None:
    registry.put_image(archive(member("f", b"1")))
    puller = ImagePuller(store_of(place), RegistrySettings())
    reference = parse_reference(f"{registry.host}/a")
    found = await asyncio.gather(*(puller.pull(reference) for _ in range(5)))
    assert len({image.root for image in found}) == 1
    assert sum("/manifests/" in path for path, _ in registry.requests) == 1


async def test_a_pull_that_nobody_waits_for_ends(place: Path, registry: OwnRegistry) -> None:
    registry.put_image(archive(member("f", b"1")))
    asked, released = threading.Event(), threading.Event()

    def stall(handler: Handler) -> bool:
        if "/blobs/" in handler.path:
            asked.set()
            released.wait(30)
        return False

    registry.responders.append(stall)
    puller = ImagePuller(store_of(place), RegistrySettings())
    waiting = [asyncio.create_task(puller.pull(parse_reference(f"{registry.host}/a"))) for _ in range(2)]
    await asyncio.to_thread(asked.wait, 30)
    waiting[0].cancel()
    await asyncio.wait(waiting[:1])
    assert not waiting[1].done()
    waiting[1].cancel()
    await asyncio.wait(waiting)
    released.set()
    assert list(place.glob("node/images/.new*")) == []
    assert store_of(place).find(f"{registry.host}/a") is None


def _bearer(registry: OwnRegistry, realm: str) -> None:
    def ask(handler: Handler) -> bool:
        if handler.path.startswith("/token"):
            return handler.answer(200, b'{"access_token": "good"}')
        if handler.headers.get("Authorization") == "Bearer good":
            return False
        challenge = f'Bearer realm="{realm}",service="s",scope="repository:a:pull"'
        return handler.answer(401, b"", ("WWW-Authenticate", challenge))

    registry.responders.append(ask)


async def test_a_token_service_is_asked_by_whom_one_has(place: Path, registry: OwnRegistry) -> None:
    registry.put_image(archive(member("f", b"1")))
    _bearer(registry, f"http://{registry.host}/token")
    await pulled(place, f"{registry.host}/a")
    await pulled(place, f"{registry.host}/a", ALICE)
    await pulled(place, f"{registry.host}/a", Credential(identity_token="refresh"))
    tokens = [(path, sent) for path, sent in registry.requests if path.startswith("/token")]
    scope = "/token?service=s&scope=repository%3Aa%3Apull"
    pair = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    assert tokens == [(scope, ""), (scope, f"Basic {pair}"), ("/token", "")]


async def test_redirects_to_other_hosts_carry_no_credentials(place: Path, registry: OwnRegistry) -> None:
    registry.put_image(archive(member("f", b"1")))

    def basic(handler: Handler) -> bool:
        if "Authorization" not in handler.headers:
            return handler.answer(401, b"", ("WWW-Authenticate", 'Basic realm="r"'))
        if "/blobs/" in handler.path:
            return handler.answer(307, b"", ("Location", f"http://{elsewhere.host}{handler.path}"))
        return False

    registry.responders.append(basic)
    with own_registry() as elsewhere:
        elsewhere.blobs = registry.blobs
        assert texts(await pulled(place, f"{registry.host}/a", ALICE)) == {"f": "1"}
        assert {sent for _, sent in elsewhere.requests} == {""}
    assert any(sent for _, sent in registry.requests)


async def test_a_mirror_is_asked_first_and_gets_no_credentials(place: Path, registry: OwnRegistry) -> None:
    digest = registry.put_image(archive(member("f", b"1")), tag="1")["digest"]
    mirrors = {"docker.io": ["http://127.0.0.1:1", f"http://{registry.host}"]}
    found = await pulled(place, "tool:1", ALICE, mirrors=mirrors)
    assert (found.name, found.repo_digest) == ("tool:1", f"docker.io/library/tool@{digest}")
    assert registry.requests[0] == ("/v2/library/tool/manifests/1?ns=docker.io", "")
    assert {sent for _, sent in registry.requests} == {""}


async def test_plain_http_is_spoken_by_option_and_through_a_proxy(place: Path, registry: OwnRegistry) -> None:
    """The proxy is a registry too: what it is asked has the whole URL of another host."""
    registry.put_image(archive(member("f", b"1")))
    environ = {"http_proxy": f"http://u:p@{registry.host}", "https_proxy": f"http://{registry.host}"}
    with pytest.raises(PullFailed, match=r"refuses registry\.invalid:443"):
        await pulled(place, "registry.invalid/a", environ=environ)
    found = await pulled(place, "registry.invalid/a", environ=environ, insecure=frozenset({"registry.invalid"}))
    assert texts(found) == {"f": "1"}
    assert registry.requests[0][0] == "http://registry.invalid/v2/a/manifests/latest"
    with pytest.raises(PullFailed, match=r"registry\.invalid"):
        await pulled(place, "registry.invalid/b", environ=environ | {"no_proxy": ".invalid"})


HOSTILE: dict[str, tuple[Any, str]] = {}


def hostile(why: str) -> Any:
    def add(function: Any) -> Any:
        HOSTILE[function.__name__.replace("_", " ").strip()] = function, why
        return function

    return add


def _swap(registry: OwnRegistry, data: bytes) -> dict[str, Any]:
    """Put an image whose layer's blob is something else."""
    layer = archive(member("f", b"1"))
    made = registry.put_image(layer)
    digest = registry.put(layer)["digest"]
    registry.blobs[digest] = "", data
    return made


@hostile("another digest")
def _a_layer_of_another_digest(registry: OwnRegistry, _: Path) -> None:
    data = bytearray(archive(member("f", b"1")))
    data[600] ^= 1
    _swap(registry, bytes(data))


@hostile("is longer than the")
def _a_layer_that_is_longer(registry: OwnRegistry, _: Path) -> None:
    _swap(registry, bytes(1 << 20))


@hostile("has 10 bytes, not the")
def _a_layer_that_is_shorter(registry: OwnRegistry, _: Path) -> None:
    _swap(registry, bytes(10))


@hostile("is longer than")
def _a_body_without_end(registry: OwnRegistry, _: Path) -> None:
    registry.put_image(archive(member("f", b"1")))

    def endless(handler: Handler) -> bool:
        handler.answer(200)
        while True:  # until the connection breaks
            handler.wfile.write(bytes(1 << 16))

    registry.responders.append(endless)


@hostile("has the digest sha256")
def _a_manifest_of_another_digest(registry: OwnRegistry, _: Path) -> None:
    made = registry.put_image(archive(member("f", b"1")))
    registry.put_index({**made, "platform": HERE})
    registry.blobs[made["digest"]] = registry.put_image(archive(member("f", b"2")), tag="x")["digest"], b"{}"


@hostile("without end")
def _a_circle_of_indexes(registry: OwnRegistry, _: Path) -> None:
    """Digests forbid one, so every index names the next."""
    found: dict[str, Any] = {"digest": f"sha256:{0:064x}", "size": 1}
    for _ in range(10):
        found = registry.put_index(found)


@hostile("redirects more than")
def _redirects_in_a_circle(registry: OwnRegistry, _: Path) -> None:
    registry.responders.append(lambda handler: handler.answer(302, b"", ("Location", handler.path)))


@hostile("unpacked is sha256")
def _a_layer_that_is_not_the_configurations(registry: OwnRegistry, _: Path) -> None:
    made = registry.put_image(archive(member("f", b"1")))
    body = json.loads(registry.blobs[made["digest"]][1])
    body["layers"] = [registry.put(archive(member("f", b"2")))]
    registry.put_document(body, "", "latest")


@hostile("larger than 1000000 bytes")
def _a_decompression_bomb(registry: OwnRegistry, _: Path) -> None:
    made = registry.put_image(archive(member("zeros", bytes(50 << 20))))
    body = json.loads(registry.blobs[made["digest"]][1])
    body["layers"] = [registry.put(gzip.compress(registry.blobs[body["layers"][0]["digest"]][1]))]
    registry.put_document(body, "", "latest")


@hostile("layers are larger than")
def _layers_of_exabytes(registry: OwnRegistry, _: Path) -> None:
    made = registry.put_image(archive(member("f", b"1")))
    body = json.loads(registry.blobs[made["digest"]][1])
    body["layers"][0]["size"] = 1 << 60
    registry.put_document(body, "", "latest")


@hostile("leads out of the image")
def _a_path_out_of_the_image(registry: OwnRegistry, _: Path) -> None:
    registry.put_image(archive(member("../../../machine/secret", b"x")))


@hostile("outside of its directory")
def _a_whiteout_of_what_is_above(registry: OwnRegistry, _: Path) -> None:
    registry.put_image(archive(member("f", b"1")), archive(member("d/.wh...")))


@hostile("is no sha256 digest")
def _a_digest_that_is_a_path(registry: OwnRegistry, _: Path) -> None:
    made = registry.put_image(archive(member("f", b"1")))
    body = json.loads(registry.blobs[made["digest"]][1])
    body["layers"][0]["digest"] = "sha256:../../../../machine/secret"
    registry.put_document(body, "", "latest")


@hostile(" 401")
def _a_challenge_of_a_million_letters(registry: OwnRegistry, _: Path) -> None:
    challenge = ("WWW-Authenticate", f"Bearer {'a' * 1_000_000}")
    registry.responders.append(lambda handler: handler.answer(401, b"", challenge))


@hostile("Invalid IPv6 URL")
def _a_realm_that_is_no_url(registry: OwnRegistry, _: Path) -> None:
    challenge = ("WWW-Authenticate", 'Bearer realm="http://["')
    registry.responders.append(lambda handler: handler.answer(401, b"", challenge))


@hostile("holds the end of a line")
def _a_token_with_the_end_of_a_line(registry: OwnRegistry, _: Path) -> None:
    def respond(handler: Handler) -> bool:
        if handler.path.startswith("/token"):
            return handler.answer(200, b'{"token": "a\\r\\nHost: else"}')
        challenge = ("WWW-Authenticate", f'Bearer realm="http://{registry.host}/token"')
        return handler.answer(401, b"", challenge)

    registry.responders.append(respond)


@pytest.mark.parametrize("location", ["http://[", "//a:b:c/", "http://h:99999999/", "ftp://h/"])
async def test_a_redirect_to_no_place_is_told(registry: OwnRegistry, place: Path, location: str) -> None:
    registry.responders.append(lambda handler: handler.answer(302, b"", ("Location", location)))
    with pytest.raises(PullFailed, match="it redirects to"):
        await pulled(place, f"{registry.host}/some/tool")


@pytest.mark.parametrize(
    "config",
    [
        {"Volumes": 5},
        {"Volumes": [["/a"], 1]},
        {"Volumes": {"/a\0b": {}}},
        {"User": "a\0b"},
        {"User": {"name": "root"}},
        {"WorkingDir": "/a\0"},
        {"StopSignal": 9},
        {"Env": {"A": "b"}},
    ],
    ids=str,
)
async def test_a_configuration_of_other_things_than_texts_is_refused(
    registry: OwnRegistry, place: Path, config: dict[str, Any]
) -> None:
    registry.put_image(archive(member("f", b"1")), **config)
    with pytest.raises(PullFailed, match="that is not of texts"):
        await pulled(place, f"{registry.host}/some/tool")


@hostile("is not JSON")
def _a_configuration_with_half_a_character(registry: OwnRegistry, _: Path) -> None:
    registry.put_image(archive(member("f", b"1")), User="\ud800")


@hostile("is not JSON")
def _a_manifest_nested_without_end(registry: OwnRegistry, _: Path) -> None:
    registry.blobs["latest"] = "", b"[" * 1_000_000


@hostile("only 2 is read")
def _a_manifest_of_schema_1(registry: OwnRegistry, _: Path) -> None:
    registry.put_document({"schemaVersion": 1, "fsLayers": []}, "", "latest")


@hostile("answers with no token")
def _a_token_service_that_gives_none(registry: OwnRegistry, _: Path) -> None:
    _bearer(registry, f"http://{registry.host}/token")
    registry.responders.insert(0, lambda h: h.path.startswith("/token") and h.answer(200, b'["x"]'))


@hostile("more than")
def _a_configuration_without_end(registry: OwnRegistry, _: Path) -> None:
    made = registry.put_image(archive(member("f", b"1")))
    body = json.loads(registry.blobs[made["digest"]][1])
    body["layers"] *= 1000
    registry.put_document(body, "", "latest")


@pytest.mark.parametrize(("attack", "why"), HOSTILE.values(), ids=HOSTILE.keys())
async def test_a_hostile_registry_is_refused_and_leaves_nothing(
    place: Path, registry: OwnRegistry, attack: Any, why: str
) -> None:
    attack(registry, place)
    with pytest.raises(PullFailed, match=why):
        await pulled(place, f"{registry.host}/a", max_bytes=1_000_000)
    assert untouched(place)
    assert [image.name for image in store_of(place).list()] == ["strato/host"]
    assert list(place.glob("node/images/.new*")) == []


@pytest.mark.parametrize("slow", ["head", "manifest", "error", "blob"])
async def test_a_registry_that_sends_a_byte_at_a_time_is_not_waited_for(
    place: Path, registry: OwnRegistry, monkeypatch: pytest.MonkeyPatch, slow: str
) -> None:
    monkeypatch.setattr("strato.node.images.registry._IDLE_SECONDS", 1.0)
    registry.put_image(archive(member("f", b"1")))
    ended = threading.Event()

    def drip(handler: Handler) -> bool:
        if ("/blobs/" if slow == "blob" else "/manifests/") not in handler.path:
            return False
        if slow == "head":
            handler.wfile.write(b"HTTP/1.0 200 OK\r\nX-Slow: ")
        else:
            handler.send_response(500 if slow == "error" else 200)
            handler.end_headers()
        with contextlib.suppress(OSError):
            while not ended.wait(0.01):
                handler.wfile.write(b"{")
                handler.wfile.flush()
        return True

    registry.responders.append(drip)
    try:
        with pytest.raises(PullFailed, match="within 1 s"):
            await pulled(place, f"{registry.host}/some/tool")
    finally:
        ended.set()
    assert untouched(place)


async def test_links_of_one_layer_lead_no_later_layer_out(place: Path, registry: OwnRegistry) -> None:
    """Not even from a tree whose files other images share."""
    for number, (_, out) in enumerate(links(place)):
        lower = archive(member("l", type=LINK, linkname=out), member("big", os.urandom(2 << 20)))
        upper = archive(member("l/new", b"x"), member("l", type=DIRECTORY), member("l/.wh.secret"))
        registry.put_image(lower, upper, tag=str(number))
        await pulled(place, f"{registry.host}/a:{number}")
        assert untouched(place)


async def test_a_registry_that_is_not_there_is_said_in_one_line(place: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        with pytest.raises(PullFailed, match=r"GET https://127.*refused.*; GET http://127"):
            await pulled(place, f"127.0.0.1:{unused.getsockname()[1]}/a")


async def test_an_image_that_changed_takes_the_place_of_the_old_one(place: Path, registry: OwnRegistry) -> None:
    registry.put_image(archive(member("f", b"1")))
    old = await pulled(place, f"{registry.host}/a")
    registry.put_image(archive(member("f", b"2")))
    new = await pulled(place, f"{registry.host}/a")
    assert (texts(new), Path(old.root).exists()) == ({"f": "2"}, False)
    assert new.repo_digest != old.repo_digest
    assert [image.name for image in store_of(place).list()][1:] == [f"{registry.host}/a:latest"]
