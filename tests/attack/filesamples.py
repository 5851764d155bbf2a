"""A file of each kind that comes in from others, as it is when nothing is wrong with it; traces: `tests.sim.traces`."""

from __future__ import annotations

from typing import Any, Final

EXPERIMENT = """apiVersion: sim.strato.dev/v1alpha1
kind: Experiment
name: compare
trace: [file.csv]
queueBy: user
limit: 100
hours: 2.5
nodes: [{count: 10, shape: '32cpu,256Gi'}, '4x8cpu,1Ti,8gpu,zone=a..c,rack=2']
queues: {a: {weight: 3}, b: {capability: {cpu: 10}}}
models:
  startCost: {pullSeconds: 30, pullSecondsOf: {b: 1m}}
variants:
  as it is: {}
  more: {nodes: 84x1cpu, limit: 3}
policies:
  packing: {actions: 'allocate, backfill', tiers: [{plugins: [{name: binpack, arguments: {binpack.weight: 3}}]}]}
  built-in:
seeds: [1, 2, 3]
fidelity: decisions
output: out
"""
MODELS = """{"startCost": {"pullSeconds": 30, "medianSeconds": "1m", "spread": 1.5},
 "elastic": {"serialRatio": 0.5, "speedOf": {"a": {"1": 1, "4": 3}}},
 "checkpoints": {"intervalSeconds": "5m", "costSeconds": 1}}
"""
MODELS_OF_FILES = """{"locality": {"profiles": ".", "default": "x"}, "gpuSpeed": {"throughputs": "throughputs.json",
 "recordedOn": "v100"}, "coLocation": {"throughputs": "throughputs.json", "model": "v100", "unknownRate": 0.5}}
"""
PLUGINS = """actions: 'enqueue, allocate, backfill'
tiers:
- plugins:
  - name: priority
  - {name: drf, enablePreemptable: false}
"""
FAIR = """<?xml version="1.0"?>
<allocations>
  <queue name="prod"><minResources>1024 mb, 2 vcores</minResources><maxResources>50%</maxResources>
    <weight>2.5</weight><schedulingPolicy>fair</schedulingPolicy><aclSubmitApps>ada,bob staff</aclSubmitApps>
    <queue name="etl"><maxResources>memory-mb=4096, vcores=3</maxResources><maxRunningApps>5</maxRunningApps></queue>
  </queue>
  <user name="ada"><maxRunningApps>6</maxRunningApps></user>
  <userMaxAppsDefault>5</userMaxAppsDefault>
  <queuePlacementPolicy>
    <rule name="specified" create="false"/><rule name="default" queue="prod"/>
  </queuePlacementPolicy>
</allocations>
"""
CAPACITY = {
    "root.queues": "prod,adhoc",
    "root.prod.capacity": "70",
    "root.prod.maximum-capacity": "60",
    "root.adhoc.capacity": "30",
    "root.adhoc.priority": "5",
    "root.adhoc.acl_submit_applications": "ada",
    "root.adhoc.user-limit-factor": "${factor}",
    "root.adhoc.maximum-applications": "10",
    "maximum-am-resource-percent": "0.2",
    "queue-mappings": "u:%user:adhoc,g:staff:prod",
    "root.adhoc.accessible-node-labels": "gpu",
    "root.prod.maximum-allocation": "memory-mb=1024,vcores=2",
}
STAGES = """apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: begin}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchLabels: {app: a}
    matchExpressions:
    - {key: .metadata.deletionTimestamp, operator: DoesNotExist}
    - {key: '.status.conditions.[] | select( .type == "Ready" ) | .status', operator: In, values: ["True"]}
  weight: 3
  weightFrom: {expressionFrom: '.metadata.annotations["weight"]'}
  delay:
    durationMilliseconds: 3000
    durationFrom: {expressionFrom: '.metadata.annotations["run"]'}
    jitterDurationMilliseconds: 5000
    jitterDurationFrom: {expressionFrom: .metadata.deletionTimestamp}
  next:
    event: {type: Normal, reason: Begun, message: it begins}
    finalizers: {add: [{value: a.b/c}], empty: false}
    statusTemplate: |
      phase: Running
      startTime: {{ Now | Quote }}
      {{ range $i, $c := .spec.containers }}{{ if ne $c.name "x" }}{{ printf "%s-%d" $c.name $i }}{{ end }}{{ end }}
      podIP: {{ PodIPWith .spec.nodeName false .metadata.uid .metadata.name .metadata.namespace | Quote }}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: end}
spec: {resourceRef: {apiGroup: v1, kind: Pod}, selector: {}, next: {delete: true}, weight: 1}
"""
STAGED_POD: Final[dict[str, Any]] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "p",
        "namespace": "default",
        "uid": "u",
        "labels": {"app": "a"},
        "annotations": {"weight": "5", "run": "1h"},
        "deletionTimestamp": "2024-01-02T03:04:05Z",
    },
    "spec": {"nodeName": "n", "containers": [{"name": "a"}, {"name": "b"}]},
    "status": {"conditions": [{"type": "Ready", "status": "True"}]},
}
STAGE_TEXTS: Final = (
    "1e308",
    "nan",
    "-1",
    "9" * 5000,
    "0x10",
    "1h",
    "2024-13-01T00:00:00Z",
    "9999-12-31T23:59:59Z",
    "",
)
POLICY = """sampling: {intervalSeconds: 5}
handlers:
  suppress: {enabled: true, file: ''}
  burst: {enabled: false}
nodes:
- selector: {matchLabels: {pool: gpu}}
  handlers: {suppress: {enabled: false}}
"""
COLOCATION = """{"globalConfig": {"cpuBurstConfig": {"enable": true}, "networkQosConfig": {"enable": true,
 "onlineBandwidthWatermarkPercent": 80}}, "nodesConfig": [{"selector": {"matchLabels": {"a": "b"}},
 "overSubscriptionConfig": {"enable": true, "overSubscriptionTypes": "cpu,memory"}}]}
"""
GROUP_FILES: Final = {
    "cpu.stat": "usage_usec 12345\nuser_usec 1\nnr_periods 5\nnr_throttled 1\n",
    "cpu.max": "100000 100000\n",
    "cpu.max.burst": "0\n",
    "cpu.weight": "100\n",
    "cpu.idle": "0\n",
    "memory.current": "4096\n",
    "memory.stat": "anon 4096\ninactive_file 0\n",
    "cpu.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00 total=0\n",
    "memory.pressure": "some avg10=1.50 avg60=0.00 avg300=0.00 total=0\n",
    "io.stat": "8:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=0 dios=0\n",
    "cpu.cfs_quota_us": "-1\n",
    "cpu.cfs_period_us": "100000\n",
    "cpuacct.usage": "12345678\n",
    "memory.usage_in_bytes": "4096\n",
    "cpu.shares": "1024\n",
}
PROC_FILES: Final = {
    "stat": "cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 1 2 3 4\n",
    "meminfo": "MemTotal:       16384 kB\nMemFree: 1 kB\nMemAvailable:   8192 kB\n",
    "net/dev": "Inter-|   Receive\n face |bytes\n  lo: 1 2 0 0 0 0 0 0 1 2 0 0\neth0: 5 0 0 0 0 0 0 0 9 0 0 0\n",
}
SCRIPT = """#!/bin/bash
#SBATCH -J name -N 2 --ntasks-per-node=4 -c 2 --mem=4G
#SBATCH --time=1-02:00:00 --array=1-9:2%2 -p gpu
#SBATCH --gres=gpu:a100:2 -d afterok:a:b,afterany:c
#STRATO --image=mine --comment='a b' --export=SEED,MODE=fast -D /data
#SBATCH -o out-%j --mail-user=ann@example.org --mail-type=END,FAIL
srun hostname
"""
KUBECONFIG = """apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: k, user: u, namespace: ns}}]
clusters: [{name: k, cluster: {server: 'https://127.0.0.1:1', certificate-authority-data: Zm9v, tls-server-name: x}}]
users: [{name: u, user: {token: t, client-certificate-data: Zm9v, client-key-data: Zm9v,
  exec: {apiVersion: client.authentication.k8s.io/v1, command: 'false', args: [a], env: [{name: a, value: b}]}}}]
"""
ENCRYPTION = """apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- resources: [secrets]
  providers:
  - aesgcm: {keys: [{name: key1, secret: AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=}]}
  - identity: {}
"""
AUDIT = """apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  resources: [{group: '', resources: [secrets, 'pods/log'], resourceNames: [a]}]
  namespaces: [x]
  users: [a]
- {level: Request, nonResourceURLs: ['/api*'], verbs: [get]}
"""
STATIC_POD = """apiVersion: v1
kind: Pod
metadata: {name: a, annotations: {x: y}}
spec: {containers: [{name: a, image: b}], tolerations: [{key: a}]}
"""
MANIFESTS = """apiVersion: v1
kind: Node
metadata: {name: n1, labels: {zone: a}}
status: {allocatable: {cpu: 4, memory: 8Gi, pods: 10}}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: q}
spec: {weight: 2, capability: {cpu: 2}}
---
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: j}
spec:
  minAvailable: 2
  queue: q
  tasks:
  - {name: w, replicas: 2, template: {spec: {containers: [{name: a, image: b, resources: {requests: {cpu: 1}}}]}}}
---
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  schedulerName: volcano
  containers: [{name: a, image: b, resources: {requests: {cpu: 100m}}}]
  tolerations: [{key: a, operator: Exists}]
"""
DIMACS = "c a comment\np min 4 5\nn 1 4\nn 4 -4\na 1 2 0 4 2\na 1 3 0 2 2\na 2 3 0 2 1\na 2 4 0 3 3\na 3 4 0 5 1\n"
SPECS = (
    "10x32cpu,256Gi+4x96cpu,1Ti,8gpu,zone=a..c,rack=40",
    "exponential mean=5m\nnormal mean=1h stddev=5s min=1s\nphases repeat 13m=4 29m=1\nuniform 1s 5s",
    "dead for=10m\nslow factor=3\nflapping up=5m down=1m for=1h\nno-lease",
    "lublin:jobs=50,nodes=128,load=0.9\nfit:file,jobs=10",
    "sh -c sleep\nsleep 1m 2.5h\nsh -c 'sleep 5; exit 3'\nset -e",
)
MESOS = ("cpus:4;mem:1024;ports:[31000-32000,5-6];disks:{a,b}", "cpus(role):1.5;gpus(*):2", "mem:1e3")
MESOS_JSON = """[{"name": "cpus", "type": "SCALAR", "scalar": {"value": 1.5}, "role": "a"},
 {"name": "ports", "type": "RANGES", "ranges": {"range": [{"begin": 1, "end": 5}]}}]
"""
USE_TRACE = "series,seconds,cores\na,0,1.5\na,60,2\nb,0,0.25\n"
IMAGE = """{"schemaVersion": 2, "config": {"mediaType": "a", "digest": "sha256:%s", "size": 5}, "layers": [
 {"mediaType": "b", "digest": "sha256:%s", "size": 7}], "manifests": [{"mediaType": "c", "digest": "sha256:%s",
 "size": 5, "platform": {"os": "linux", "architecture": "amd64"}}], "rootfs": {"diff_ids": ["sha256:%s"]},
 "auths": {"https://x/v1/": {"auth": "dTpw"}}, "credHelpers": {"a": "b"}}
""" % (("a" * 64,) * 4)
SECCOMP = """{"defaultAction": "SCMP_ACT_ERRNO", "defaultErrnoRet": 1, "architectures": ["SCMP_ARCH_X86_64"],
 "syscalls": [{"names": ["read", "write"], "action": "SCMP_ACT_ALLOW",
  "args": [{"index": 0, "value": 5, "op": "SCMP_CMP_EQ"}]}]}
"""
