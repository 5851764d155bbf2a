"""``strato schedule``: files in, decisions out, exit statuses, saved states, a cluster's state."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from strato.api.wire import User
from strato.cli import states
from strato.cli.main import cli, main
from strato.client.local import LocalCluster
from strato.clock import VirtualClock, run_virtual
from strato.scheduler.dryrun.states import Header, render
from strato.server.embedded import in_memory_server
from strato.testing import Scene, manifests

Json = dict[str, Any]

CLUSTER: list[Json] = [
    manifests.node("n1", cpu="4", memory="8Gi"),
    manifests.podgroup("gang", namespace="ns", min_member=2),
    manifests.pod("a", namespace="ns", cpu="1", group="gang"),
    manifests.pod("b", namespace="ns", cpu="1", group="gang"),
    manifests.pod("large", namespace="ns", cpu="64"),
]


@pytest.fixture
def state(tmp_path: Path) -> Path:
    path = tmp_path / "state.yaml"
    path.write_text("\n---\n".join(json.dumps(obj) for obj in CLUSTER))
    return path


def run(*args: object) -> Result:
    return CliRunner().invoke(cli, ["schedule", *map(str, args)], catch_exceptions=False)


def decide(*args: object) -> Any:
    result = run(*args, "-o", "json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)["cycles"]


def test_json_has_exactly_the_contract(state: Path) -> None:
    first, second = decide("-f", state, "--cycles", 2)
    assert set(first) == {"binds", "evictions", "pipelined", "podGroups", "unschedulable", "queues"}
    assert first["binds"] == [{"pod": "ns/a", "node": "n1"}, {"pod": "ns/b", "node": "n1"}]
    assert first["evictions"] == first["pipelined"] == []
    (waiting,) = first["unschedulable"]
    assert waiting["pod"] == "ns/large"
    assert {frozenset(reason) for reason in waiting["reasons"]} == {frozenset(("plugin", "reason", "nodes"))}
    groups = {group["name"]: group for group in second["podGroups"]}
    assert groups["ns/gang"]["phase"] == "Running"
    assert {frozenset(c) for g in groups.values() for c in g["conditions"]} == {
        frozenset(("type", "status", "reason", "message"))
    }
    assert [set(queue) for queue in first["queues"]] == [{"name", "deserved", "allocated", "share", "overused"}] * 2
    assert second["binds"] == []


def test_pods_without_a_group_get_one_as_from_the_controller(state: Path) -> None:
    (cycle,) = decide("-f", state)
    names = [group["name"] for group in cycle["podGroups"]]
    assert len(names) == 2
    assert names[0] == "ns/gang"
    assert names[1].startswith("ns/podgroup-")


def test_tables_say_it_in_words(state: Path) -> None:
    text = run("-f", state).output
    assert "Cycle 1: 2 bound, 1 waiting" in text
    assert "ns/a   n1" in text
    assert "ns/gang" in text


WORKLOADS: list[Json] = [
    {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"generateName": "train-"},
        "spec": {
            "minAvailable": 2,
            "tasks": [
                {"name": "w", "replicas": 2, "template": {"spec": {"containers": [{"name": "c", "image": "x"}]}}}
            ],
        },
    },
    {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "ns"},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "nginx"}]},
            },
        },
    },
    {"apiVersion": "kubeflow.org/v1", "kind": "MXJob", "metadata": {"name": "t"}},
    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}},
]


def test_workloads_are_decided_on_as_their_controllers_make_them(state: Path, tmp_path: Path) -> None:
    folder, saved = tmp_path / "manifests", tmp_path / "saved.json"
    folder.mkdir()
    listed = {"apiVersion": "v1", "kind": "List", "items": WORKLOADS[:1]}
    (folder / "a.json").write_text(json.dumps(listed))
    (folder / "b.yaml").write_text("\n---\n".join(json.dumps(obj) for obj in WORKLOADS[1:]))
    result = run("-f", state, "-f", folder, "--save", saved, "-o", "json")
    assert result.exit_code == 0
    assert result.stderr.splitlines() == [
        "note: 1 of kind MXJob (kubeflow.org/v1) passed over: the kind is not served, nothing makes pods of it; give "
        "the pods it stands for, or write it as a Job or a Deployment",
        "note: 1 of kind ConfigMap passed over; the scheduler does not read it",
    ]
    bound = [bind["pod"].rpartition("-")[0] for bind in json.loads(result.stdout)["cycles"][0]["binds"]]
    assert sum(name.startswith("default/train-") for name in bound) == 2
    assert sum(name.startswith("ns/web-") for name in bound) == 3
    assert run("-f", saved, "-o", "json").stdout == result.stdout


def test_a_saved_state_gives_the_same_bytes(state: Path, tmp_path: Path) -> None:
    config, saved = tmp_path / "conf.yaml", tmp_path / "saved.json"
    config.write_text("actions: allocate\ntiers: [{plugins: [{name: predicates}]}]\n")
    first = run("-f", state, "--config", config, "--cycles", 2, "--seed", 5, "--save", saved, "-o", "json")
    config.unlink()
    again = run("-f", saved, "-o", "json")
    assert first.exit_code == again.exit_code == 0
    assert first.stdout == again.stdout
    assert len(decide("-f", saved, "--cycles", 1)) == 1


@pytest.mark.parametrize(
    ("args", "words"),
    [
        pytest.param([], ["-f PATH", "--from-cluster"], id="nothing to read"),
        pytest.param(["-f", "absent.yaml"], ["absent.yaml: cannot be read"], id="no such file"),
        pytest.param(
            ["-f", "bad.yaml"],
            [
                "bad.yaml: document 1: spec.containers: must be a list",
                "bad.yaml: document 2: status.allocatable.cpu: must be a quantity",
                "bad.yaml: document 3: is neither YAML nor JSON",
            ],
            id="every problem of a file",
        ),
        pytest.param(
            ["-f", "bad.yaml", "--config", "conf.yaml"],
            ["no such action 'alocate'; did you mean 'allocate'?", "bad.yaml: document 1"],
            id="configuration and manifests together",
        ),
    ],
)
def test_bad_input_ends_with_two_and_names_everything(
    args: list[str],
    words: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("conf.yaml").write_text("actions: alocate")
    Path("bad.yaml").write_text(
        "kind: Pod\nmetadata: {name: p}\nspec: {containers: 5}\n"
        "---\nkind: Node\nmetadata: {name: n}\nstatus: {allocatable: {cpu: x}}\n---\na: ["
    )
    with pytest.raises(SystemExit) as caught:
        main(["schedule", *args])
    assert caught.value.code == 2
    said = capsys.readouterr().err
    for word in words:
        assert word in said
    assert "Traceback" not in said


def test_the_state_of_a_cluster_schedules_as_its_files_do(tmp_path: Path) -> None:
    async def story(clock: VirtualClock) -> list[Any]:
        cluster = LocalCluster(in_memory_server(clock), User("admin", groups=("system:masters",)))
        await Scene().namespace("ns").queue("default").add(*CLUSTER).create_in(cluster)
        return await states.from_cluster(cluster)

    clock = VirtualClock()
    found = run_virtual(clock, story(clock))
    saved = tmp_path / "saved.json"
    saved.write_bytes(render(found, Header()))
    (cycle,) = decide("-f", saved)
    assert sorted(cycle["binds"], key=lambda bind: str(bind["pod"])) == [
        {"pod": "ns/a", "node": "n1"},
        {"pod": "ns/b", "node": "n1"},
    ]
