"""Tables of the node's pure decisions."""

from __future__ import annotations

import ipaddress
import os
import random
import stat
import tarfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.api.core import ConfigMap, Pod, Secret
from strato.clock import VirtualClock
from strato.kernelstats import cpu_shares, cpu_weight
from strato.node.hollow.runplan import RUN_SECONDS, plan_run, problems
from strato.node.images.store import ImageProblem, ImageStore, NoImage, normal_name
from strato.node.podstatus import ContainerRecord, Ending, PodRecord, phase_of, pod_status
from strato.node.records import record_of
from strato.node.restarts import Backoff, should_restart
from strato.node.sandbox.atomicwriter import File, write_payload
from strato.node.sandbox.cgroups import cpu_quota
from strato.node.sandbox.environment import ConfigProblem, DownwardContext, References, environment, expand
from strato.node.sandbox.hosts import Peer, host_network_file, hosts_file
from strato.node.sandbox.logfiles import LogWriter
from strato.node.sandbox.logs import DiskLogs
from strato.node.sandbox.network import PodAddresses, choose_block
from strato.node.sandbox.paths import NodePaths
from strato.node.sandbox.volumes import Inputs, payload
from strato.server.logs import LogOptions
from strato.server.tables.pods import pod_status as shown_status
from tests.node.fake_api import status_of


def test_annotations_come_before_the_command() -> None:
    rng = random.Random(1)
    assert plan_run({RUN_SECONDS: "9"}, ["sleep", "5"], "Never", rng).seconds == 9
    assert plan_run({RUN_SECONDS: "soon"}, ["sleep", "5"], "Never", rng).seconds == 5
    assert problems({RUN_SECONDS: "soon"}) == [
        "annotation strato.dev/run-seconds is ignored: 'soon' is no number of seconds, 0 or more, and no distribution "
        "(constant, uniform, exponential, normal, lognormal, weibull, empirical)"
    ]


RESTARTS = [
    ("Never", 1, False),
    ("Never", 0, False),
    ("OnFailure", 1, True),
    ("OnFailure", 0, False),
    ("Always", 0, True),
    ("Always", 1, True),
]


@pytest.mark.parametrize(("policy", "code", "again"), RESTARTS)
def test_should_restart(policy: str, code: int, again: bool) -> None:
    assert should_restart(policy, code) is again


def test_backoff_doubles_up_to_its_cap_and_starts_over_after_a_quiet_run() -> None:
    backoff, wait, waits = Backoff(), 0.0, []
    for _ in range(7):
        wait = backoff.next_wait(wait, 1.0)
        waits.append(wait)
    assert waits == [10, 20, 40, 80, 160, 300, 300]
    assert backoff.next_wait(wait, 601.0) == 10


def _container(state: str, code: int = 0, **more: Any) -> ContainerRecord:
    record = ContainerRecord("c", "i", **more)
    if state == "running":
        record.run(1.0, "id")
    elif state == "ended":
        record.end(Ending(code, "r", 1.0, 2.0))
    elif state == "crashed":
        record.end(Ending(code, "r", 1.0, 2.0))
        record.wait("CrashLoopBackOff")
    return record


PHASES = [
    pytest.param("Never", [_container("waiting")], "Pending", id="nothing started"),
    pytest.param("Never", [_container("running")], "Running", id="one runs"),
    pytest.param("Never", [_container("running"), _container("waiting")], "Pending", id="one has not started"),
    pytest.param("Never", [_container("ended")], "Succeeded", id="all passed"),
    pytest.param("Never", [_container("ended"), _container("ended", 1)], "Failed", id="one failed for good"),
    pytest.param("Never", [_container("running"), _container("ended", 1)], "Running", id="one failed, one runs"),
    pytest.param("OnFailure", [_container("ended", 1)], "Running", id="failed but will run again"),
    pytest.param("OnFailure", [_container("crashed", 1)], "Running", id="waits for its next run"),
    pytest.param("Always", [_container("ended")], "Running", id="a service that ended runs again"),
    pytest.param(
        "Never", [_container("ended", 1, init=True), _container("waiting")], "Failed", id="an init container failed"
    ),
    pytest.param(
        "OnFailure",
        [_container("crashed", 1, init=True), _container("waiting")],
        "Pending",
        id="an init container retries",
    ),
    pytest.param(
        "Never",
        [_container("running", init=True, sidecar=True), _container("ended")],
        "Succeeded",
        id="a sidecar does not hold the pod",
    ),
]


@pytest.mark.parametrize(("policy", "containers", "phase"), PHASES)
def test_phase_of(policy: str, containers: list[ContainerRecord], phase: str) -> None:
    assert phase_of(PodRecord(policy, containers)) == phase


def test_condition_times_change_only_with_the_status() -> None:
    record = PodRecord("Never", [_container("running")], pod_ip="1.2.3.4", start_time=1.0)
    first = {c["type"]: c for c in pod_status(record, 10.0)["conditions"]}
    record.containers[0].end(Ending(1, "Error", 1.0, 2.0))
    second = {c["type"]: c for c in pod_status(record, 20.0)["conditions"]}
    assert first["Initialized"]["lastTransitionTime"] == second["Initialized"]["lastTransitionTime"]
    assert first["Ready"]["lastTransitionTime"] != second["Ready"]["lastTransitionTime"]
    assert second["Ready"]["reason"] == "PodFailed"


def test_a_pod_whose_init_container_failed_was_never_initialized() -> None:
    """As a kubelet has it; kubectl then shows Init:… and not the waiting main container."""
    record = PodRecord("Never", [_container("ended", 1, init=True), _container("waiting")], start_time=1.0)
    status = pod_status(record, 10.0)
    initialized = next(one for one in status["conditions"] if one["type"] == "Initialized")
    assert (status["phase"], initialized["status"]) == ("Failed", "False")
    assert initialized["reason"] == "ContainersNotInitialized"
    spec = {"initContainers": [{"name": "c"}], "containers": [{"name": "d"}]}
    assert shown_status({"metadata": {}, "spec": spec, "status": status}) == "Init:r"


def test_a_record_read_back_from_its_status_is_the_same() -> None:
    record = PodRecord("OnFailure", [_container("crashed", 3), _container("running")], "9.9.9.9", "1.2.3.4", 1.0)
    record.containers[1].name = "d"
    status = status_of(pod_status(record, 10.0))
    spec = {"restartPolicy": "OnFailure", "containers": [{"name": "c", "image": "i"}, {"name": "d", "image": "i"}]}
    pod = msgspec.convert({"metadata": {"name": "p"}, "spec": spec, "status": status}, Pod)
    assert status_of(pod_status(record_of(pod, host_ip="9.9.9.9", now=50.0), 60.0)) == status


EXPANSIONS = [
    ("$(A)-$(B)", "1-2"),
    ("$(UNKNOWN)", "$(UNKNOWN)"),
    ("$$(A)", "$(A)"),
    ("$$$(A)", "$1"),
    ("$A $", "$A $"),
    ("for i in $(seq 3)", "for i in $(seq 3)"),
    ("$(A", "$(A"),
]


@pytest.mark.parametrize(("text", "want"), EXPANSIONS)
def test_expand(text: str, want: str) -> None:
    assert expand(text, {"A": "1", "B": "2"}) == want


POD = {
    "metadata": {"name": "p", "namespace": "ns", "uid": "u", "labels": {"b": "2", "a": 'x"y'}},
    "spec": {
        "serviceAccountName": "sa",
        "containers": [
            {
                "name": "m",
                "image": "i",
                "resources": {"limits": {"cpu": "1500m", "memory": "1Gi"}},
                "envFrom": [{"prefix": "C_", "configMapRef": {"name": "cm"}}],
                "env": [
                    {"name": "A", "value": "a"},
                    {"name": "B", "value": "$(A)$(LATER)$(C_key)"},
                    {"name": "LATER", "value": "x"},
                    {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
                    {"name": "LABEL", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['b']"}}},
                    {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
                    {"name": "MEM", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}},
                    {"name": "SEC", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
                    {"name": "NONE", "valueFrom": {"secretKeyRef": {"name": "no", "key": "k", "optional": True}}},
                ],
            }
        ],
    },
}
REFERENCES = References(
    {"cm": msgspec.convert({"data": {"key": "value"}}, ConfigMap)},
    {"s": msgspec.convert({"data": {"k": "c2Vj"}}, Secret)},
)
PLACE = DownwardContext("node", "9.9.9.9", "1.2.3.4")


def test_environment() -> None:
    pod = msgspec.convert(POD, Pod)
    assert environment(pod, pod.spec.containers[0], REFERENCES, PLACE) == {
        "C_key": "value",
        "A": "a",
        "B": "a$(LATER)value",
        "LATER": "x",
        "IP": "1.2.3.4",
        "LABEL": "2",
        "CPU": "2",
        "MEM": "1024",
        "SEC": "sec",
    }


def test_a_missing_key_names_itself() -> None:
    container = {"name": "m", "env": [{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "cm", "key": "no"}}}]}
    pod = msgspec.convert({"metadata": {"namespace": "ns"}, "spec": {"containers": [container]}}, Pod)
    with pytest.raises(ConfigProblem, match="couldn't find key no in ConfigMap ns/cm"):
        environment(pod, pod.spec.containers[0], REFERENCES, PLACE)
    with pytest.raises(ConfigProblem, match='configmap "cm" not found'):
        environment(pod, pod.spec.containers[0], References(), PLACE)


def test_downward_labels_are_sorted_and_quoted() -> None:
    volume = {"name": "v", "downwardAPI": {"items": [{"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}}]}}
    pod = msgspec.convert(POD | {"spec": POD["spec"] | {"volumes": [volume]}}, Pod)  # type: ignore[operator] # JSON
    files = payload(pod.spec.volumes[0], Inputs(pod, REFERENCES, PLACE))
    assert files == {"l": File(b'a="x\\"y"\nb="2"')}


def test_payload_volumes_switch_all_files_at_once(tmp_path: Path) -> None:
    directory = str(tmp_path / "v")
    assert write_payload(directory, {"a": File(b"1"), "d/b": File(b"2", 0o400)})
    assert write_payload(directory, {"a": File(b"3")})
    assert (tmp_path / "v" / "a").read_text() == "3"
    assert sorted(os.listdir(directory)) == sorted(["..data", os.readlink(f"{directory}/..data"), "a"])


def test_a_payload_volume_is_not_written_again_without_a_change(tmp_path: Path) -> None:
    directory = str(tmp_path / "v")
    files = {"a": File(b"1"), "d/b": File(b"2", 0o400)}
    assert write_payload(directory, files)
    assert not write_payload(directory, dict(reversed(files.items())))
    assert write_payload(directory, {**files, "a": File(b"1", 0o600)})
    assert (tmp_path / "v" / "a").stat().st_mode & 0o777 == 0o600


def test_hosts_file_gives_siblings_all_their_names() -> None:
    text = hosts_file(Peer("1.1.1.1", "w-0", "svc", "ns"), [Peer("1.1.1.2", "w-1", "svc", "ns")], [("8.8.8.8", ("x",))])
    assert "1.1.1.1\tw-0.svc.ns.svc.cluster.local\tw-0.svc.ns.svc\tw-0.svc.ns\tw-0.svc\tw-0\tsvc.ns" in text
    assert "\n1.1.1.2\tw-1.svc.ns.svc.cluster.local" in text
    assert text.endswith("8.8.8.8\tx\n")


@given(st.lists(st.sampled_from("abcdef"), max_size=40))
def test_addresses_are_never_given_twice(uids: list[str]) -> None:
    addresses, held = PodAddresses(ipaddress.IPv4Network("10.0.0.0/28")), dict[str, str]()
    for uid in uids:
        if uid in held:
            addresses.release(uid)
            del held[uid]
        else:
            held[uid] = addresses.give(uid)
            assert addresses.give(uid) == held[uid]
        assert len(set(held.values())) == len(held)
        assert addresses.gateway not in held.values()


def test_blocks_avoid_what_is_in_use() -> None:
    first = choose_block("x", ())
    assert not choose_block("x", [first]).overlaps(first)


def test_cpu_amounts_in_the_kernels_units() -> None:
    assert (cpu_shares(1000), cpu_shares(0), cpu_quota(500), cpu_weight(0)) == (1024, 2, 50_000, 1)


@given(st.lists(st.binary(max_size=50), max_size=20))
async def test_logs_read_back_what_was_written(chunks: list[bytes]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as home:
        node_paths = NodePaths(home)
        path = node_paths.pod("u").log("m", 0)
        os.makedirs(os.path.dirname(path))
        writer = LogWriter(path, max_bytes=400, max_files=1000)
        for chunk in chunks:
            writer.write("stdout", chunk)
        writer.close()
        logs = DiskLogs(node_paths, VirtualClock())
        read = b"".join([piece async for piece in logs.read_log("ns", "p", "u", "m", LogOptions())])
        assert read == b"".join(chunks)


async def test_a_followed_log_loses_nothing_when_it_is_rotated(tmp_path: Path) -> None:
    node_paths, clock = NodePaths(str(tmp_path)), VirtualClock()
    path = node_paths.pod("u").log("m", 0)
    os.makedirs(os.path.dirname(path))
    writer = LogWriter(path, max_bytes=400, max_files=5)
    writer.write("stdout", b"first\n")
    chunks = DiskLogs(node_paths, clock).read_log("ns", "p", "u", "m", LogOptions(follow=True))
    read = [await anext(chunks)]
    for number in range(5):  # more than is left in the file
        writer.write("stdout", b"%d%s\n" % (number, b"x" * 60))
    assert os.path.exists(path + ".1")
    read.append(await anext(chunks))
    writer.write("stdout", b"last\n")
    while not read[-1].endswith(b"last\n"):
        read.append(await anext(chunks))
    lines = b"".join(read).split()
    assert lines == [b"first", *(b"%d%s" % (number, b"x" * 60) for number in range(5)), b"last"]
    await chunks.aclose()
    writer.close()


def test_images_are_imported_without_devices_and_pipes(tmp_path: Path) -> None:
    source = tmp_path / "src"
    source.mkdir()
    (source / "file").write_text("x")
    os.mkfifo(source / "pipe")  # reading it, or /dev/zero, would never end
    with tarfile.open(tmp_path / "image.tar", "w") as archive:
        for name, kind in (("zero", tarfile.CHRTYPE), ("pipe", tarfile.FIFOTYPE)):
            member = tarfile.TarInfo(name)
            member.type = kind
            archive.addfile(member)
        archive.add(source / "file", "file")
    store = ImageStore(tmp_path)
    for name, path in (("dir", source), ("tar", tmp_path / "image.tar")):
        assert os.listdir(store.import_image(name, path).root) == ["file"]


def test_an_image_writes_nothing_outside_of_itself(tmp_path: Path) -> None:
    """Whatever the Python: the standard library's own guard is younger than Debian 12's."""

    def member(name: str, **more: Any) -> tarfile.TarInfo:
        made = tarfile.TarInfo(name)
        for key, value in more.items():
            setattr(made, key, value)
        return made

    link = {"type": tarfile.SYMTYPE, "linkname": str(tmp_path)}
    store = ImageStore(tmp_path / "store")
    with tarfile.open(tmp_path / "bad.tar", "w") as archive:
        archive.addfile(member("../evil"))
    with pytest.raises(ImageProblem, match="evil' leads out of the image"):
        store.import_image("bad", tmp_path / "bad.tar")
    with tarfile.open(tmp_path / "linked.tar", "w") as archive:
        archive.addfile(member("out", **link))
        archive.addfile(member("out/inside"))
    root = Path(store.import_image("linked", tmp_path / "linked.tar").root)
    assert [path.relative_to(root) for path in tmp_path.rglob("inside")] == [Path(*tmp_path.parts[1:], "inside")]
    with tarfile.open(tmp_path / "good.tar", "w") as archive:
        archive.addfile(member("/bin/su", mode=0o6777))
    root = Path(store.import_image("good", tmp_path / "good.tar").root)
    assert stat.S_IMODE((root / "bin" / "su").stat().st_mode) == 0o755
    assert [path.name for path in tmp_path.rglob("evil")] == []


def test_images_are_found_imported_and_removed(tmp_path: Path) -> None:
    store = ImageStore(tmp_path)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "f").write_text("x")
    store.import_image("reg.io/a/b", tmp_path / "src")
    assert [i.name for i in store.list()] == ["strato/host", "reg.io/a/b:latest"]
    found = store.find("reg.io/a/b:latest")
    assert found is not None
    assert (Path(found.root) / "f").read_text() == "x"
    store.remove("reg.io/a/b")
    with pytest.raises(NoImage, match="not in the store"):
        store.remove("reg.io/a/b")
    with pytest.raises(ImageProblem, match="cannot be replaced or removed"):
        store.remove("strato/host")
    with pytest.raises(ImageProblem, match="neither a directory nor a tar"):
        store.import_image("x", tmp_path / "nothing")
    with pytest.raises(ImageProblem, match="cannot be replaced"):
        store.import_image("strato/host", tmp_path / "src")
    (tmp_path / "bad.tar").write_text("no tar")
    with pytest.raises(ImageProblem, match="not a tar archive"):
        store.import_image("x", tmp_path / "bad.tar")


def test_a_folder_that_holds_the_store_is_imported_without_it(tmp_path: Path) -> None:
    """`strato image import all /` would copy the copy into itself until the disk is full."""
    (tmp_path / "etc").mkdir()
    (tmp_path / "images").mkdir()  # a namesake is no store
    store = ImageStore(tmp_path / "home" / "node")
    root = Path(store.import_image("all", tmp_path).root)
    assert sorted(path.name for path in root.iterdir()) == ["etc", "home", "images"]
    assert list((root / "home" / "node").iterdir()) == []


def test_what_a_killed_import_left_is_swept_by_the_next_one(tmp_path: Path) -> None:
    left = tmp_path / "node" / "images" / ".new-x" / "root"
    left.mkdir(parents=True)
    (tmp_path / "etc").mkdir()
    store = ImageStore(tmp_path / "node")
    assert [image.name for image in store.list()] == ["strato/host"]
    store.import_image("tiny", tmp_path / "etc")
    assert not left.exists()
    assert [image.name for image in store.list()] == ["strato/host", "tiny:latest"]


def test_names_get_the_latest_tag() -> None:
    assert [normal_name(n) for n in ("a", "r:5000/a", "a:1", "a@sha256:" + "0" * 64)] == [
        "a:latest",
        "r:5000/a:latest",
        "a:1",
        "a@sha256:" + "0" * 64,
    ]


def test_a_pod_of_the_machines_network_sees_the_machines_names() -> None:
    text = host_network_file("127.0.0.1 localhost\n192.0.2.1 build\n", [("192.0.2.9", ["a", "b"])])
    assert text.splitlines() == [
        "# Kubernetes-managed hosts file (host network).",
        "127.0.0.1 localhost",
        "192.0.2.1 build",
        "# Entries added by HostAliases.",
        "192.0.2.9\ta\tb",
    ]
