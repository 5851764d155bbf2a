"""Resources and quotas for properties."""

from __future__ import annotations

from hypothesis import strategies as st

from strato.interop.mesos import intervals
from strato.interop.mesos.resources import Amount, DiskInfo, Reservation, ResourceKind, Resources, ValueType

RESERVATIONS = st.sampled_from(
    [
        (),
        (),
        (Reservation("a"),),
        (Reservation("a", dynamic=True, principal="p", labels=(("k", "v"), ("l", None))),),
        (Reservation("a"), Reservation("a/b", dynamic=True)),
    ]
)
DISKS = st.sampled_from(
    [
        None,
        DiskInfo("v1", text='{"persistence":{"id":"v1"}}'),
        DiskInfo(source_type="MOUNT", text='{"source":{"type":"MOUNT"}}'),
        DiskInfo(source_type="PATH", text='{"source":{"type":"PATH"}}'),
    ]
)


@st.composite
def _scalar(draw: st.DrawFn) -> tuple[ResourceKind, Amount]:
    name = draw(st.sampled_from(["cpus", "mem", "disk"]))
    disk = draw(DISKS) if name == "disk" else None
    reservations = draw(RESERVATIONS)
    shared = disk is not None and disk.persistence_id is not None and draw(st.booleans())
    kind = ResourceKind(
        name, reservations=reservations, disk=disk, shared=shared, revocable=draw(st.booleans()) and not shared
    )
    return kind, draw(st.integers(1, 10_000))


_PORTS = st.lists(st.tuples(st.integers(1, 20), st.integers(1, 5)).map(lambda p: (p[0], p[0] + p[1])), max_size=3)
_RANGES = st.tuples(
    RESERVATIONS.map(lambda layers: ResourceKind("ports", ValueType.RANGES, layers)), _PORTS.map(intervals.joined)
)
_SETS = st.tuples(
    RESERVATIONS.map(lambda layers: ResourceKind("disks", ValueType.SET, layers)),
    st.frozensets(st.sampled_from(["sda", "sdb", "sdc"])),
)


def resources() -> st.SearchStrategy[Resources]:
    """Make resources of all kinds, with amounts small enough to meet."""
    return st.lists(st.one_of(_scalar(), _scalar(), _RANGES, _SETS), max_size=6).map(Resources.of)
