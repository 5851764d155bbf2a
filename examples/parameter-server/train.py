"""Train a softmax classifier with parameter servers and workers, over plain sockets and numpy.

Each parameter server holds a slice of the weights; each worker holds a slice of the data, pulls the weights,
computes a gradient and pushes it (asynchronous stochastic gradient descent). Who is who comes from the ``svc``
plugin (``/etc/volcano/ps.host``, ``/etc/volcano/worker.host``) and the ``env`` plugin (``VC_TASK_INDEX``).
"""

import itertools
import os
import socket
import socketserver
import sys
import threading
import time
from pathlib import Path

import numpy as np

PORT = 2222
FEATURES, CLASSES = 64, 10
SAMPLES_PER_WORKER, BATCH = 4000, 200
STEPS = int(os.environ.get("STEPS", "150"))
LEARNING_RATE = 0.5
PULL, PUSH, DONE = b"L", b"S", b"D"


def hosts(task: str) -> list[str]:
    return Path(f"/etc/volcano/{task}.host").read_text().split()


def receive(connection: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = connection.recv(size - len(parts))
        if not part:
            raise ConnectionError("the other side went away")
        parts += part
    return bytes(parts)


def slices(servers: int) -> list[slice]:
    edges = np.linspace(0, FEATURES + 1, servers + 1).astype(int)
    return [slice(a, b) for a, b in itertools.pairwise(edges)]


class Shard:
    """One parameter server's rows of the weight matrix."""

    def __init__(self, rows: int) -> None:
        self.weights = np.zeros((rows, CLASSES))
        self.updates = 0
        self.finished_workers = 0
        self.lock = threading.Condition()

    def serve(self, connection: socket.socket) -> None:
        while True:
            request = receive(connection, 1)
            if request == PULL:
                with self.lock:
                    connection.sendall(self.weights.tobytes())
            elif request == PUSH:
                gradient = np.frombuffer(receive(connection, self.weights.nbytes)).reshape(self.weights.shape)
                with self.lock:
                    self.weights -= LEARNING_RATE * gradient
                    self.updates += 1
            else:
                with self.lock:
                    self.finished_workers += 1
                    self.lock.notify_all()
                return


def run_server(index: int) -> None:
    rows = slices(len(hosts("ps")))[index]
    shard, workers = Shard(rows.stop - rows.start), len(hosts("worker"))

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            shard.serve(self.request)

    class Server(socketserver.ThreadingTCPServer):
        allow_reuse_address = True
        daemon_threads = True

    # Bind to this pod's own address: pods without a network namespace share the machine's ports.
    address = socket.gethostbyname(socket.gethostname())
    with Server((address, PORT), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        print(
            f"ps {index}: rows {rows.start}-{rows.stop - 1} at {address}:{PORT}, waiting for {workers} workers",
            flush=True,
        )
        with shard.lock:
            shard.lock.wait_for(lambda: shard.finished_workers == workers)
        server.shutdown()
    print(f"ps {index}: {shard.updates} updates, done", flush=True)


def connect(host: str, patience_seconds: float = 60.0) -> socket.socket:
    deadline = time.monotonic() + patience_seconds
    while True:
        try:
            return socket.create_connection((host, PORT), timeout=30)
        except OSError as error:
            if time.monotonic() > deadline:
                sys.exit(f"cannot reach {host}:{PORT} after {patience_seconds:.0f} s: {error}")
            time.sleep(0.1)


def data(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Ten overlapping clusters; the centres are the same for everybody, the samples are not."""
    centres = np.random.default_rng(7).normal(size=(CLASSES, FEATURES))
    random = np.random.default_rng(1000 + seed)
    labels = random.integers(0, CLASSES, SAMPLES_PER_WORKER)
    samples = centres[labels] + random.normal(scale=2.0, size=(SAMPLES_PER_WORKER, FEATURES))
    return np.hstack([samples, np.ones((SAMPLES_PER_WORKER, 1))]), labels


def loss_and_gradient(weights: np.ndarray, samples: np.ndarray, labels: np.ndarray) -> tuple[float, np.ndarray]:
    scores = samples @ weights
    scores -= scores.max(axis=1, keepdims=True)
    odds = np.exp(scores)
    odds /= odds.sum(axis=1, keepdims=True)
    loss = -np.log(odds[np.arange(len(labels)), labels] + 1e-12).mean()
    odds[np.arange(len(labels)), labels] -= 1
    return float(loss), samples.T @ odds / len(labels)


def run_worker(index: int) -> None:
    servers = [connect(host) for host in hosts("ps")]
    parts = slices(len(servers))
    samples, labels = data(index)
    random = np.random.default_rng(index)
    weights = np.zeros((FEATURES + 1, CLASSES))

    def pull() -> None:
        for server, rows in zip(servers, parts, strict=True):
            server.sendall(PULL)
            weights[rows] = np.frombuffer(receive(server, weights[rows].nbytes)).reshape(-1, CLASSES)

    for step in range(STEPS):
        pull()
        batch = random.integers(0, len(labels), BATCH)
        loss, gradient = loss_and_gradient(weights, samples[batch], labels[batch])
        for server, rows in zip(servers, parts, strict=True):
            server.sendall(PUSH + np.ascontiguousarray(gradient[rows]).tobytes())
        if step % 50 == 0:
            print(f"worker {index}: step {step:4d}  loss {loss:.4f}", flush=True)
    pull()
    unseen, truth = data(seed=99)
    accuracy = float(((unseen @ weights).argmax(axis=1) == truth).mean())
    for server in servers:
        server.sendall(DONE)
        server.close()
    print(f"worker {index}: trained, accuracy {accuracy:.3f} on {len(truth)} unseen samples", flush=True)
    if accuracy < 0.9:
        sys.exit(f"worker {index}: accuracy {accuracy:.3f} is below 0.9")


if __name__ == "__main__":
    role, number = sys.argv[1], int(os.environ["VC_TASK_INDEX"])
    run_server(number) if role == "ps" else run_worker(number)
