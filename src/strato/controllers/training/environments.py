"""The environment variables that frameworks read, in upstream's order (spec training G, H and I3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec

from strato.api.frameworks import MASTER, WORKER, JobShape
from strato.api.meta import Json

Environment = Callable[[JobShape, str, int, str], Sequence[Json]]
"""Returns variables of a replica: the job, the role, the index, and the domain of the cluster's names."""

_UNBUFFERED: Final = ("PYTHONUNBUFFERED", "1")
_MANY: Final = 1
"""A job with more pods than this is distributed; a single pod has no peers to be listed."""


def _variables(*pairs: tuple[str, object]) -> list[Json]:
    return [{"name": name, "value": str(value)} for name, value in pairs]


def nothing(shape: JobShape, role: str, index: int, domain: str) -> Sequence[Json]:
    """Return no variables."""
    return ()


def tensorflow(shape: JobShape, role: str, index: int, domain: str) -> Sequence[Json]:
    """Return ``TF_CONFIG``; with dynamic workers it lists only the worker itself and the parameter servers."""
    if shape.total == _MANY:
        return []
    task = {"type": role.lower(), "index": index}
    if shape.spec.enable_dynamic_worker:
        config: Json = {"cluster": _sparse_cluster(shape, role, index, domain), "task": task}
    else:
        cluster = {
            one.lower(): [_address(shape, one, number, domain) for number in range(shape.count(one))]
            for one in sorted(shape.roles, key=str.lower)
        }
        config = {"cluster": cluster, "task": task, "environment": "cloud"}
    return _variables(("TF_CONFIG", msgspec.json.encode(config).decode()))


def _sparse_cluster(shape: JobShape, role: str, index: int, domain: str) -> Json:
    workers: Json = {}
    servers: list[str] = []
    if role == WORKER:
        workers = {str(index): _address(shape, role, index, domain)}
        servers = [_address(shape, "PS", number, domain) for number in range(shape.count("PS"))]
    elif role == "PS":
        servers = [_address(shape, role, index, domain)]
    return {"worker": workers, "ps": servers}


def _address(shape: JobShape, role: str, index: int, domain: str) -> str:
    host = f"{shape.object_name(role, index)}.{shape.namespace}.svc{'.' if domain else ''}{domain}"
    return f"{host}:{shape.port(role)}"


def pytorch(shape: JobShape, role: str, index: int, domain: str) -> Sequence[Json]:
    """Return the variables that ``torchrun`` and ``torch.distributed`` read."""
    pairs: list[tuple[str, object]] = [_UNBUFFERED]
    if MASTER in shape.roles:
        port, host = shape.port(MASTER), shape.object_name(MASTER, 0)
        processes = int(shape.nproc_per_node) if shape.nproc_per_node.isdecimal() else 1
        rank = index if role == MASTER else index + 1
        pairs += [("MASTER_PORT", port), ("PET_MASTER_PORT", port), ("MASTER_ADDR", host), ("PET_MASTER_ADDR", host)]
        pairs += [("WORLD_SIZE", shape.total * processes), ("RANK", rank), ("PET_NODE_RANK", rank)]
    if shape.nproc_per_node:
        pairs.append(("PET_NPROC_PER_NODE", shape.nproc_per_node))
    if shape.spec.elastic_policy is None:
        pairs.append(("PET_NNODES", shape.total))
    else:
        pairs += _rendezvous(shape)
    return _variables(*pairs)


def _rendezvous(shape: JobShape) -> Iterator[tuple[str, object]]:
    policy = shape.spec.elastic_policy
    assert policy is not None, "asked of elastic jobs only"
    host = policy.rdzv_host or shape.object_name(WORKER, 0)
    yield "PET_RDZV_ENDPOINT", f"{host}:{policy.rdzv_port or shape.port(WORKER)}"
    yield "PET_RDZV_BACKEND", policy.rdzv_backend or "c10d"
    least, most = shape.bounds
    yield "PET_NNODES", f"{least}:{most}"
    if policy.max_restarts is not None:
        yield "PET_MAX_RESTARTS", policy.max_restarts
    if policy.n_proc_per_node is not None:
        yield "PET_NPROC_PER_NODE", policy.n_proc_per_node
    if policy.rdzv_id is not None:
        yield "PET_RDZV_ID", policy.rdzv_id
    if policy.rdzv_conf:
        yield "PET_RDZV_CONF", ",".join(f"{option.key}={option.value}" for option in policy.rdzv_conf)
    if policy.standalone:
        yield "PET_STANDALONE", ""


def xgboost(shape: JobShape, role: str, index: int, domain: str) -> Sequence[Json]:
    """Return the address of the master, and those of the workers if there are any."""
    pairs: list[tuple[str, object]] = [
        ("MASTER_PORT", shape.port(MASTER)),
        ("MASTER_ADDR", shape.object_name(MASTER, 0)),
        ("WORLD_SIZE", shape.total),
        ("RANK", index if role == MASTER else index + shape.count(MASTER)),
        _UNBUFFERED,
    ]
    if shape.total > _MANY and WORKER in shape.roles:
        workers = [shape.object_name(WORKER, number) for number in range(shape.total - 1)]
        pairs += [("WORKER_PORT", shape.port(WORKER)), ("WORKER_ADDRS", ",".join(workers))]
    return _variables(*pairs)


def paddle(shape: JobShape, role: str, index: int, domain: str) -> Sequence[Json]:
    """Return the address of the master; the first replica, which is the master, uses its own pod IP."""
    first = MASTER if MASTER in shape.roles else WORKER
    variables = _variables(_UNBUFFERED, ("PADDLE_JOB_ID", shape.name), ("PADDLE_NNODES", shape.total))
    if role == first and index == 0:
        variables.append({"name": "POD_IP_DUMMY", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}})
        master = "$(POD_IP_DUMMY)"
    else:
        master = shape.object_name(first, 0)
    variables += _variables(("PADDLE_MASTER", f"{master}:{shape.port(first)}"))
    if first == MASTER:
        variables += _variables(("PADDLE_SERVER_NUM" if role == MASTER else "PADDLE_TRAINER_NUM", 1))
    return variables


def jax(shape: JobShape, role: str, index: int, domain: str) -> Sequence[Json]:
    """Return the address of worker 0, which is the coordinator."""
    return _variables(
        _UNBUFFERED,
        ("COORDINATOR_PORT", shape.port(WORKER)),
        ("COORDINATOR_ADDRESS", shape.object_name(WORKER, 0)),
        ("NUM_PROCESSES", shape.total),
        ("PROCESS_ID", index),
    )
