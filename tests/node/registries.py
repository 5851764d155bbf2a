"""Registries for tests: Debian's, as a process on loopback, and one in this process that does whatever it is told."""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from strato.node.images.documents import OCI_INDEX, OCI_MANIFEST

USER, PASSWORD = "alice", "wonder:land"


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


@contextlib.contextmanager
def debian_registry(directory: Path, *, authenticated: bool = False, address: str = "") -> Iterator[str]:
    """Run Debian's docker-registry at an address, or at a free port of loopback; yield its host and port."""
    program, htpasswd = shutil.which("docker-registry"), shutil.which("htpasswd")
    if program is None or (authenticated and htpasswd is None):
        pytest.skip("docker-registry or htpasswd is not installed (apt-get install docker-registry apache2-utils)")
    directory.mkdir(parents=True, exist_ok=True)
    address = address or f"127.0.0.1:{_free_port()}"
    host, _, port = address.partition(":")
    config: dict[str, Any] = {
        "version": 0.1,
        "storage": {"filesystem": {"rootdirectory": str(directory / "data")}},
        "http": {"addr": address},
    }
    if authenticated:
        users = subprocess.run([str(htpasswd), "-Bbn", USER, PASSWORD], check=True, capture_output=True).stdout
        (directory / "htpasswd").write_bytes(users)
        config["auth"] = {"htpasswd": {"realm": "test", "path": str(directory / "htpasswd")}}
    (directory / "config.yml").write_text(json.dumps(config))
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen([program, "serve", str(directory / "config.yml")], stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + 60
        while True:
            with contextlib.suppress(OSError), socket.create_connection((host, int(port)), 1):
                break
            assert process.poll() is None, (directory / "log").read_text()
            assert time.monotonic() < deadline, "the registry does not start"
            time.sleep(0.05)
        yield address
    finally:
        process.terminate()
        process.wait()


Respond = Callable[["Handler"], bool]
"""Answers a request in place of the registry; False leaves it to it."""


class Handler(BaseHTTPRequestHandler):
    """One request; HTTP/1.0, so that a body ends with its connection."""

    server: OwnRegistry

    def do_GET(self) -> None:
        self.server.requests.append((self.path, self.headers.get("Authorization", "")))
        with contextlib.suppress(ConnectionError):
            if not any(respond(self) for respond in self.server.responders):
                found = self.server.blobs.get(self.path.partition("?")[0].rpartition("/")[2])
                if found is None:
                    self.answer(404, b'{"errors": [{"code": "MANIFEST_UNKNOWN", "message": "no such thing"}]}')
                else:
                    self.answer(200, found[1], ("Content-Type", found[0]))

    do_POST = do_GET

    def answer(self, status: int, body: bytes = b"", *headers: tuple[str, str]) -> bool:
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
        return True

    def log_message(self, *_: object) -> None:
        pass


class OwnRegistry(ThreadingHTTPServer):
    """A registry of one repository; what is put into it can be anything."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.blobs: dict[str, tuple[str, bytes]] = {}
        """By digest or tag: media type and content."""
        self.responders: list[Respond] = []
        self.requests: list[tuple[str, str]] = []
        """Path and authorization of each."""

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"

    def put(self, data: bytes, media_type: str = "application/octet-stream") -> dict[str, Any]:
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        self.blobs[digest] = media_type, data
        return {"digest": digest, "size": len(data), "mediaType": media_type}

    def put_document(self, body: Any, media_type: str, tag: str = "") -> dict[str, Any]:
        text = json.dumps(body).encode()
        if tag:
            self.blobs[tag] = media_type, text
        return self.put(text, media_type)

    def put_image(self, *layers: bytes, tag: str = "latest", **config: Any) -> dict[str, Any]:
        """Put an image of layers that are tar archives."""
        diff_ids = [f"sha256:{hashlib.sha256(layer).hexdigest()}" for layer in layers]
        told = self.put_document({"config": config, "rootfs": {"diff_ids": diff_ids}}, "application/json")
        body = {"schemaVersion": 2, "config": told, "layers": [self.put(layer) for layer in layers]}
        return self.put_document(body, OCI_MANIFEST, tag)

    def put_index(self, *manifests: dict[str, Any], tag: str = "latest") -> dict[str, Any]:
        return self.put_document({"schemaVersion": 2, "manifests": list(manifests)}, OCI_INDEX, tag)


@contextlib.contextmanager
def own_registry() -> Iterator[OwnRegistry]:
    with OwnRegistry() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
