"""Programs under Volcano's names print, byte for byte, what scripts read.

What is expected was printed by Volcano 1.14.1; ``tests/e2e/test_vcctl.py`` runs both side by side where there is Go.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from strato.api import catalog
from strato.cli.volcano import texts
from tests.cli.test_verbs import Shell
from tests.cli.test_verbs import shell as shell

LIST = (
    "Name   Creation       Phase       JobType     Replicas    Min   "
    "Pending   Running   Succeeded   Failed    Unknown     RetryCount\n"
)
RUN_HELP = """
Usage:
  vcctl job run [flags]

Flags:
  -f, --filename string     *
  -h, --help                *
  -i, --image string        * (default "busybox")
  -k, --kubeconfig string   *
  -L, --limits string       * (default "cpu=1000m,memory=100Mi")
  -s, --master string       *
  -m, --min int             * (default 1)
  -N, --name string         *
  -n, --namespace string    * (default "default")
  -r, --replicas int        * (default 1)
  -R, --requests string     * (default "cpu=1000m,memory=100Mi")
  -S, --scheduler string    * (default "volcano")

Global Flags:
      --log-flush-frequency duration   * (default 5s)
  -v, --v Level                        *
      --vmodule moduleSpec             *
"""
QUEUE_HELP = """
Usage:
  vcctl queue [command]

Available Commands:
  create      *
  delete      *
  get         *
  list        *
  operate     *

Flags:
  -h, --help   *

Global Flags:
      --log-flush-frequency duration   * (default 5s)
  -v, --v Level                        *
      --vmodule moduleSpec             *

Use "vcctl queue [command] --help" for more information about a command.
"""


def without_descriptions(text: str) -> str:
    """Return help with a star for every description: those are ours, where they start is not."""
    text = re.sub(r"^(  (?:-\w, |    )--\S+(?: \w+)? {3,})\S.*?( \(default .*\))?$", r"\1*\2", text, flags=re.MULTILINE)
    return re.sub(r"^(  [a-z]+ +)(?<!vcctl )\S.*$", r"\1*", text, flags=re.MULTILINE)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param(("job", "run", "-h"), RUN_HELP, id="a verb"),
        pytest.param(("help", "job", "run"), RUN_HELP, id="by the command help"),
        pytest.param(("queue", "--help"), QUEUE_HELP, id="a group"),
        pytest.param(("queue",), QUEUE_HELP, id="a group without a verb"),
        pytest.param(("queue", "nope", "list"), QUEUE_HELP, id="a group with another word"),
    ],
)
def test_help_is_laid_out_as_scripts_know_it(shell: Shell, words: tuple[str, ...], expected: str) -> None:
    first, _, usage = shell.tool("vcctl", *words).partition("\n")
    assert first
    assert without_descriptions(usage) == expected


def test_defaults_of_vsub_stand_in_the_environment_and_in_its_help(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VOLCANO_DEFAULT_IMAGE", "alpine")
    assert '(default "alpine")' in shell.tool("vsub", "-h")
    assert shell.tool("vsub", "-n", "one", "-c", "echo 'a b'") == "run job one successfully\n"
    container = shell.get(catalog.VCJOB, "one")["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
    assert (container["image"], container["command"]) == ("alpine", ["echo", "a b"])


def test_flags_of_the_cluster_stand_anywhere(shell: Shell) -> None:
    shell.job("one")
    assert "one" in shell.tool("vcctl", "-v", "4", "job", "-s", "https://h", "list", "-k", "file", "--v=4")
    assert (shell.options["kubeconfig"], shell.options["master"]) == ("file", "https://h")


UNREADABLE = [
    ("vcctl job list --bad", "Error: unknown flag: --bad\n"),
    ("vcctl job list -xyz", "Error: unknown shorthand flag: 'x' in -xyz\n"),
    ("vcctl job list ---x", "Error: bad flag syntax: ---x\n"),
    ("vcctl job list -n", "Error: flag needs an argument: 'n' in -n\n"),
    ("vcctl job list --namespace", "Error: flag needs an argument: --namespace\n"),
    (
        "vcctl job run -m x",
        'Error: invalid argument "x" for "-m, --min" flag: strconv.ParseInt: parsing "x": invalid syntax\n',
    ),
    (
        "vcctl queue create -w 9999999999",
        'Error: invalid argument "9999999999" for "-w, --weight" flag: '
        'strconv.ParseInt: parsing "9999999999": value out of range\n',
    ),
    (
        "vcctl job list --all-namespaces=maybe",
        'Error: invalid argument "maybe" for "--all-namespaces" flag: '
        'strconv.ParseBool: parsing "maybe": invalid syntax\n',
    ),
    (
        "vcctl job list --log-flush-frequency 5",
        'Error: invalid argument "5" for "--log-flush-frequency" flag: parse error\n',
    ),
    ("vcctl nope", 'Error: unknown command "nope" for "vcctl"\n'),
    ("vcctl jbo", 'Error: unknown command "jbo" for "vcctl"\n\nDid you mean this?\n\tjob\n\n'),
    ("vcctl --all-namespaces job list", 'Error: unknown command "list" for "vcctl"\n'),
]  # fmt: skip


@pytest.mark.parametrize(("line", "expected"), UNREADABLE)
def test_what_cannot_be_read_is_one_line_on_standard_error_with_status_1(
    shell: Shell, line: str, expected: str
) -> None:
    assert shell.tool(*line.split(), code=1) == expected


def test_a_program_whose_own_flags_are_wrong_says_how_to_use_it(shell: Shell) -> None:
    told = shell.tool("vjobs", "--bad", code=1)
    assert told.startswith("Usage:\n  vjobs [flags]\n\nFlags:\n")
    assert told.endswith("\n\nError: unknown flag: --bad\n")


FAILED = [
    ("vcctl job view -N no", 'Failed to view job: jobs.batch.volcano.sh "no" not found\n'),
    ("vcancel -n no", 'Failed to: jobs.batch.volcano.sh "no" not found\n'),
    ("vsub", "Failed to: job name cannot be left blank\n"),
    ("vcctl job run", "Failed to run job: job name cannot be left blank\n"),
    ("vcctl job run -N a -R cpu", "Failed to run job: invalid argument syntax cpu, expected <resource>=<value>\n"),
    (
        "vcctl job run -f no.yaml",
        "Failed to run job: failed to read file, err: open no.yaml: no such file or directory\n",
    ),
    ("vcctl job run -f no.txt", "Failed to run job: only support yaml file\n"),
    (
        "vcctl job view",
        "Failed to view job: job name (specified by --name or -N) is mandatory to view a particular job\n",
    ),
    ("vcctl job view -N a/b", "Failed to view job: invalid resource name \"a/b\": [may not contain '/']\n"),
    ("vcctl queue get", "Failed to get queue: name is mandatory to get the particular queue details\n"),
    ("vcctl queue operate -n default", "Failed to operate queue: action can not be null\n"),
    (
        "vcctl queue operate -n default -a update",
        "Failed to operate queue: when update queue default, weight must be specified, "
        "the value must be greater than 0\n",
    ),
    ("vcctl jobflow create", "Failed to create jobflow: open : no such file or directory\n"),
    ("vcctl jobtemplate delete", "Failed to delete jobtemplate: job template name must be specified\n"),
    ("vcctl pod list -j one -q other", "Failed to list pod: the input vcjob one does not match the queue other\n"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "expected"), FAILED)
def test_failures_are_one_line_on_standard_output_with_status_255(shell: Shell, line: str, expected: str) -> None:
    shell.pod("one-0", shell.job("one"), queue="default")
    assert shell.tool(*line.split(), code=255) == expected


@pytest.mark.parametrize("words", [("vcancel", "-n", ""), ("vsuspend", "-n", ""), ("vcctl", "job", "delete", "-N", "")])
def test_an_empty_variable_of_a_script_never_means_all_jobs(shell: Shell, words: tuple[str, ...]) -> None:
    shell.job("one")
    assert "job name is mandatory to" in shell.tool(*words, code=255)
    assert [job["metadata"]["name"] for job in shell.list(catalog.VCJOB)] == ["one"]


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        pytest.param(
            ("vcctl", "job", "list", "--all-namespaces=true", "-v=3"), 2, id="values joined by an equals sign"
        ),
        pytest.param(("vcctl", "-v4", "job", "list", "--all_namespaces"), 2, id="an underscore for a dash"),
        pytest.param(("vjobs", "--all-namespaces=false"), 2, id="a switch that is off"),
        pytest.param(("vjobs", "-Nother"), 1, id="a value glued to its letter"),
        pytest.param(("vcctl", "job", "list", "-n=default", "and", "more"), 2, id="words that are no flags"),
        pytest.param(("vcctl", "job", "list", "--", "-n", "other"), 2, id="words behind two dashes"),
    ],
)
def test_flags_are_written_as_in_go(shell: Shell, words: tuple[str, ...], lines: int) -> None:
    shell.job("one")
    assert shell.tool(*words).count("\n") == lines


def test_tables_are_padded_to_their_last_column(shell: Shell) -> None:
    job = shell.job("one")
    day = job["metadata"]["creationTimestamp"][:10]
    row = (
        f"one    {day}     Running     Batch       2           2     "
        "0         2         0           0         0           0         \n"
    )
    assert shell.tool("vcctl", "job", "list") == LIST + row
    assert shell.tool("vjobs") == LIST + row
    assert shell.tool("vjobs", "--selector", "none") == LIST
    assert shell.tool("vcctl", "job", "list", "--selector", "none") == "No resources found\n"
    header = "Name                     Weight  State   Parent  Inqueue Pending Running Unknown Completed\n"
    shell.create(catalog.PODGROUP, "g", spec={"queue": "default", "minMember": 1}, status={"phase": "Inqueue"})
    listed = shell.tool("vcctl", "queue", "get", "-n", "default")
    assert listed.startswith(header)
    assert re.fullmatch(r"default {18}1 {7}(Open)? +(root +)?1 {7}0 {7}0 {7}0 {7}0 {7}\n", listed.removeprefix(header))
    assert shell.tool("vqueues").startswith(
        "Name                     Weight  State   Inqueue Pending Running Unknown \n"
    )


PAGE = """\
Name:       \tone
Namespace:  \tdefault
Labels:     \t{{"team":"a"}}
Annotations:\t{{"note":"a\\u003cb é"}}
API Version:\t
Kind:       \t
Metadata:
  Creation Timestamp:\t{created}
  Generate Name:     \t
  Generation:        \t1
  Resource Version:  \t{version}
  UID:               \t{uid}
Spec:
  Min Available:     \t1
  Plugins:
    Env:\t[]
    Ssh:\t[--no-root=true a]
  Scheduler Name:    \tvolcano
  Tasks:
    Name:\tt
    Replicas:\t1
    Template:
      Metadata:
        Annotations:
          Cri . Cci . Io / Container - Type:          \t
          Kubernetes . Io / Availablezone:            \tz1
          Network . Alpha . Kubernetes . Io / Network:\t
        Creation Timestamp:\t0001-01-01 00:00:00 +0000 UTC
      Spec:
        Containers:
          Command:
            sleep
            6
          Image:\tbusybox
          Name: \tc
          Ports:
            Container Port:\t80
            Name:          \tweb
          Resources:
            Limits:
              Cpu:   \t0
              Memory:\t0
            Requests:
              Cpu:   \t500m
              Memory:\t1Gi
            Working Dir:\t/tmp
        Image Pull Secrets:
          Name:     \tpull
        Restart Policy:   \tNever
Status:
  Running:      \t1
  Min Available:\t1
  State:
    Phase:\tRunning
  Conditions:
    Status\tTransitionTime
    Running \t{since}\x20
Events:
{events}"""
EVENT_WIDTHS = (15, 40, 30, 40, 0)
EVENTS = (
    ("Type", "Reason", "Age", "Form", "Message"),
    ("-------",) * 5,
    ("Warning", "PodFailed", "<unknown>", "vc-controller, n1", "lost"),
)


def test_the_page_of_a_job_has_every_line(shell: Shell) -> None:
    container = {"name": "c", "image": "busybox", "command": ["sleep", "6"], "workingDir": "/tmp"}
    container["ports"] = [{"containerPort": 80, "name": "web"}]
    container["resources"] = {"requests": {"cpu": 0.5, "memory": "1024Mi"}}
    pod = {"containers": [container], "imagePullSecrets": [{"name": "pull"}], "restartPolicy": "Never"}
    template = {"metadata": {"annotations": {"kubernetes.io/availablezone": "z1"}}, "spec": pod}
    since = "2026-01-01T00:00:00Z"
    spec = {"minAvailable": 1, "schedulerName": "volcano", "plugins": {"ssh": ["--no-root=true", "a"], "env": []}}
    spec["tasks"] = [{"name": "t", "replicas": 1, "template": template}]
    status = {"state": {"phase": "Running"}, "running": 1}
    status["conditions"] = [{"status": "Running", "lastTransitionTime": since}]
    metadata = {"labels": {"team": "a"}, "annotations": {"note": "a<b é"}}
    job = shell.create(catalog.VCJOB, "one", metadata=metadata, spec=spec, status=status)
    about = {"kind": "Job", "namespace": "default", "name": "one"}
    event = {"involvedObject": about, "type": "Warning", "reason": "PodFailed", "message": " lost\n"}
    shell.create(catalog.EVENT, "one.1", source={"component": "vc-controller", "host": "n1"}, **event)
    shell.create(catalog.EVENT, "oneself.1", **event)
    meta = job["metadata"]
    page = PAGE.format(
        created=texts.local_time(meta["creationTimestamp"]),
        version=meta["resourceVersion"],
        uid=meta["uid"],
        since=texts.local_time(since),
        events="".join(
            "\t".join(cell.ljust(width) for cell, width in zip(row, EVENT_WIDTHS, strict=True)) + "\n" for row in EVENTS
        ),
    )
    assert shell.tool("vcctl", "job", "view", "-N", "one") == page
    short = re.sub(r"  Conditions:\n.*\n.*\n", "", page)
    assert shell.tool("vjobs", "-n", "one") == short


def test_times_are_of_this_machine_s_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert texts.local_time("2026-01-01T20:00:00Z") == "2026-01-02 05:00:00 +0900 JST"
        assert texts.local_date("2026-01-01T20:00:00Z") == "2026-01-02"
    finally:
        monkeypatch.undo()
        time.tzset()


def test_orders_to_jobs_and_queues_print_nothing(shell: Shell) -> None:
    shell.job("one")
    for words in (("vcctl", "job", "suspend", "-N", "one"), ("vresume", "-n", "one")):
        assert shell.tool(*words) == ""
    assert shell.tool("vcctl", "queue", "operate", "-n", "default", "-a", "close") == ""
    actions = sorted((c["action"], c["target"]["name"]) for c in shell.list(catalog.COMMAND))
    assert actions == [("AbortJob", "one"), ("CloseQueue", "default"), ("ResumeJob", "one")]
    assert shell.tool("vcctl", "queue", "create", "-n", "q", "-w", "3", "-S", "Closed") == ""
    assert shell.tool("vcctl", "queue", "operate", "-n", "q", "-a", "update", "-w", "0x10") == ""
    assert shell.get(catalog.QUEUE, "q")["spec"]["weight"] == 16
    assert shell.tool("vcctl", "queue", "delete", "-n", "q") == ""


def test_a_file_may_leave_out_what_its_kind_is(shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "job.yml"
    pod = {"containers": [{"name": "c", "image": "busybox"}]}
    body: dict[str, Any] = {
        "metadata": {"name": "one"},
        "spec": {"tasks": [{"replicas": 1, "template": {"spec": pod}}]},
    }
    path.write_text(yaml.safe_dump(body))
    assert shell.tool("vcctl", "job", "run", "-f", str(path)) == "run job one successfully\n"
    path.write_text(yaml.safe_dump({**body, "kind": "Pod"}))
    assert "it holds Pod, not a Job" in shell.tool("vcctl", "job", "run", "-f", str(path), code=255)


FLOWS = """
apiVersion: flow.volcano.sh/v1alpha1
kind: JobFlow
metadata: {name: night, annotations: {at: "22", note: 'a: "b"', size: 1e3}}
spec: {flows: [{name: a}], jobRetainPolicy: retain}
---
---
apiVersion: flow.volcano.sh/v1alpha1
kind: JobFlow
metadata: {name: loop}
spec: {flows: [{name: a, dependsOn: {targets: [a]}}]}
"""


def test_a_document_that_fails_stops_neither_the_others_nor_the_script(shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "flows.yaml"
    path.write_text(FLOWS.replace("1e3", '"1e3"'))
    made, failed = shell.tool("vcctl", "jobflow", "create", "-f", str(path)).splitlines()
    assert made == "Created JobFlow: default/night"
    assert failed.startswith("Failed to create JobFlow: ")
    assert (
        shell.tool("vcctl", "jobflow", "list")
        == "Name     Namespace    Phase    Age    \nnight    default               0s     \n"
    )
    described = shell.tool("vcctl", "jobflow", "describe", "-N", "night")
    assert '  annotations:\n    at: "22"\n    note: \'a: "b"\'\n    size: "1e3"\n' in described
    assert described.endswith("spec:\n  flows:\n  - name: a\n  jobRetainPolicy: retain\nstatus:\n  state: {}\n")
    body = json.loads(shell.tool("vcctl", "jobflow", "describe", "-o", "json"))
    assert [*body] == ["kind", "apiVersion", "metadata", "spec", "status"]
    assert shell.tool("vcctl", "jobflow", "describe", "-N", "night", "-o", "toml") == "Unsupported format: toml"
    assert shell.tool("vcctl", "jobflow", "delete", "-N", "night") == "Deleted JobFlow: default/night\n"
    assert shell.tool("vcctl", "jobflow", "delete", "-f", str(path)).count("not found") == 2
    assert shell.tool("vcctl", "jobflow", "describe") == ""
