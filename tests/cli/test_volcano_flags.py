"""The arguments of Volcano's own manifests start our components: taken with the same meaning, or with a line that says
why they mean nothing here.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click
import pytest

from strato.cli.goflags import GoCommand, switch
from strato.cli.run import run
from strato.cli.run.ignoredflags import COMMON, CONTROLLERS, SCHEDULER
from strato.cli.run.scheduling import labels_of

DOCS = Path(__file__).parents[2] / "docs"

SHARED = """--master --kubeconfig --version --log-flush-frequency --feature-gates --leader-elect
--leader-elect-lease-duration --leader-elect-renew-deadline --leader-elect-retry-period --leader-elect-resource-lock
--leader-elect-resource-namespace --leader-elect-resource-name --lock-object-namespace --ca-cert-file --tls-cert-file
--tls-private-key-file --enable-healthz --healthz-address --enable-metrics --listen-address --kube-api-qps
--kube-api-burst --scheduler-name --v --vmodule --logtostderr --stderrthreshold"""

OWN = {
    "scheduler": """
        --scheduler-conf --disable-default-scheduler-config --schedule-period --resync-period --default-queue
        --enable-pprof --priority-class --csi-storage --minimum-feasible-nodes --minimum-percentage-nodes-to-find
        --percentage-nodes-to-find --plugins-dir --node-selector --cache-dumper --cache-dump-dir --node-worker-threads
        --gate-removal-worker-num --ignored-provisioners --resource-sync-timeout --scheduler-sharding-mode
        --scheduler-sharding-name""",
    "controllers": """--worker-threads --worker-threads-for-cronjob --worker-threads-for-podgroup
        --worker-threads-for-queue --worker-threads-for-gc --max-requeue-num --inherit-owner-annotations --controllers
        --scheduler-configs --shard-sync-period --enable-node-event-trigger --sharding-configmap
        --sharding-configmap-namespace""",
    "webhook": """--port --enabled-admission --webhook-namespace --webhook-service-name --webhook-url --admission-conf
        --graceful-shutdown-time --enable-queue-allocated-pods-check --max-queue-depth
        --enable-root-queue-protection""",
}
"""Volcano's flags by our component."""


def options_of(part: str) -> dict[str, click.Option]:
    command = run.get_command(click.Context(run), part)
    assert command is not None
    return {name: param for param in command.params if isinstance(param, click.Option) for name in param.opts}


@pytest.mark.parametrize("part", [*OWN, "all"])
def test_every_flag_of_volcanos_components_is_known(part: str) -> None:
    wanted = set(SHARED.split())
    for name, text in OWN.items():
        if part in (name, "all"):
            wanted |= set(text.split())
    assert wanted - set(options_of(part)) == set()


@pytest.mark.parametrize("part", [*OWN, "all", "node"])
def test_every_option_shown_says_what_it_is_for(part: str) -> None:
    silent = [name for name, option in options_of(part).items() if not option.hidden and not option.help]
    assert [name for name in silent if name.startswith("--")] == []


VOLCANOS = {
    "scheduler": [
        "--logtostderr",
        "--scheduler-conf=/volcano.scheduler/volcano-scheduler.conf",
        "--enable-healthz=true",
    ]
    + ["--enable-metrics=true", "--leader-elect=false", "--kube-api-qps=2000", "--kube-api-burst=2000"]
    + ["--schedule-period=1s", "--node-worker-threads=20", "-v=3", "2>&1"],
    "controllers": ["--logtostderr", "--enable-healthz=true", "--enable-metrics=true", "--leader-elect=true"]
    + ["--leader-elect-resource-namespace=volcano-system", "--kube-api-qps=50", "--kube-api-burst=100"]
    + ["--worker-threads=3", "--worker-threads-for-gc=5", "--worker-threads-for-podgroup=5"]
    + ["--controllers=*", "--controllers=-gc-controller", "--inherit-owner-annotations=false", "-v=4", "2>&1"],
    "webhook": ["--enabled-admission=/jobs/mutate,/jobs/validate,/podgroups/mutate,/pods/validate,/queues/mutate"]
    + ["--tls-cert-file=/admission.local.config/certificates/tls.crt", "--listen-address=0.0.0.0"]
    + ["--tls-private-key-file=/admission.local.config/certificates/tls.key"]
    + ["--ca-cert-file=/admission.local.config/certificates/ca.crt", "--admission-conf=/conf/volcano-admission.conf"]
    + ["--webhook-namespace=volcano-system", "--webhook-service-name=volcano-admission-service"]
    + ["--enable-healthz=true", "--logtostderr", "--port=8443", "--enable-root-queue-protection=false", "-v=4", "2>&1"],
}
"""Arguments as Volcano's installation has them."""


def parsed(part: str, *words: str) -> dict[str, Any]:
    command = run.get_command(click.Context(run), part)
    assert command is not None
    return command.make_context(part, list(words)).params


@pytest.mark.parametrize("part", VOLCANOS)
def test_the_arguments_of_volcanos_installation_are_read(part: str) -> None:
    params = parsed(part, *VOLCANOS[part])
    assert params["enable_healthz"] is True
    assert params["healthz_address"] == ":11251"
    assert params["level"] in (3, 4)
    if part == "scheduler":
        assert (params["leader_elect"], params["enable_metrics"]) == (False, True)
        assert params["config"] == "/volcano.scheduler/volcano-scheduler.conf"
    if part == "controllers":
        assert params["chosen"] == ("*", "-gc-controller")
        assert (params["leader_elect"], params["inherit_owner_annotations"]) == (True, False)
    if part == "webhook":
        assert params["protect_root_queue"] is False


def test_flags_without_effect_are_in_the_documentation_with_their_reason() -> None:
    text = (DOCS / "components.md").read_text()
    for flag in (*COMMON, *SCHEDULER, *CONTROLLERS):
        assert f"`{flag.name}`" in text, flag.name
        assert flag.why in text, flag.why


@pytest.mark.parametrize("part", [*OWN, "node"])
def test_flags_with_a_meaning_are_in_the_documentation(part: str) -> None:
    text = (DOCS / "components.md").read_text()
    shown = {name for name, option in options_of(part).items() if not option.hidden and name.startswith("--")}
    named = set(re.findall(r"`(--[a-z-]+)", text))
    assert shown - named - {"--help"} == set()


@click.command(cls=GoCommand)
@switch("-a", "--all", "every", default=None)
@click.option("-v", "--v", "level", type=int, default=0)
@click.option("-n", "--name", default="")
@click.argument("rest", nargs=-1)
def go(every: bool | None, level: int, name: str, rest: tuple[str, ...]) -> None:
    """Take some flags."""


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param(["--all"], (True, 0, "", ()), id="a switch stands alone"),
        pytest.param(["--all=false", "-v=4"], (False, 4, "", ()), id="values are joined by an equals sign"),
        pytest.param(["-a", "one"], (True, 0, "", ("one",)), id="a switch takes no word after it"),
        pytest.param(["-v4", "-n", "-a"], (None, 4, "-a", ()), id="the value of a flag is no switch"),
        pytest.param(["--v", "5", "2>&1"], (None, 5, "", ()), id="what a shell would take out is taken out"),
        pytest.param(
            ["--", "--all", "2>&1"], (None, 0, "", ("--all", "2>&1")), id="nothing is changed after two dashes"
        ),
    ],
)
def test_flags_are_written_as_in_go(words: list[str], expected: tuple[object, ...]) -> None:
    params = go.make_context("go", words).params
    assert (params["every"], params["level"], params["name"], params["rest"]) == expected


def test_a_switch_with_another_value_is_refused() -> None:
    with pytest.raises(click.BadParameter, match="'perhaps' is not a valid boolean"):
        go.make_context("go", ["--all=perhaps"])


def test_node_labels_without_a_value_do_not_count() -> None:
    assert labels_of(["zone:a,zone:b", "gpu:", "plain", "team:x"]) == {("zone", "a"), ("zone", "b"), ("team", "x")}


@pytest.mark.parametrize(
    ("words", "names", "shard", "actions", "lease"),
    [
        pytest.param([], ("volcano", "poseidon"), "volcano", None, "volcano", id="without"),
        pytest.param(
            ["--agent-scheduler"], ("volcano", "poseidon", "agent-scheduler"), "volcano", None, "volcano", id="beside"
        ),
        pytest.param(
            ["--scheduler-name=agent-scheduler", "--scheduler-worker-count=2"],
            ("agent-scheduler",), "agent-scheduler", ("allocate",), "agent-scheduler", id="alone",
        ),
        pytest.param(
            ["--scheduler-name=agent-scheduler", "--scheduler-sharding-name=mine"],
            ("agent-scheduler",), "mine", ("allocate",), "agent-scheduler", id="with a shard of another name",
        ),
    ],
)  # fmt: skip
def test_the_agent_scheduler_is_served(
    words: list[str], names: tuple[str, ...], shard: str, actions: tuple[str, ...] | None, lease: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    made: dict[str, Any] = {}
    monkeypatch.setattr("strato.scheduler.Scheduler.__init__", lambda _self, *_args, **given: made.update(given))
    members: list[Any] = []

    async def serve(_cluster: Any, _random: Any, _common: Any, found: list[Any], *_rest: Any, **_more: Any) -> None:
        members.extend(found)

    monkeypatch.setattr("strato.cli.run.components.serve", serve)
    monkeypatch.setattr("strato.cli.run.components.connect", lambda *_args, **_given: None)
    run.main(["scheduler", *words], obj={"master": None, "kubeconfig": None}, standalone_mode=False)
    assert tuple(made["options"].names) == names
    assert made["options"].shard_name == shard
    assert (made["config"].actions if made["config"] else None) == actions
    assert members[0].lease == lease
