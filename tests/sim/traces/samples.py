"""A small file of each format of traces, written by hand with the oddities that such files have."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Sample:
    """One file."""

    format: str
    name: str
    text: str


SWF = """; MaxNodes: 4
; MaxProcs: 8
; a comment
1 10 5 100 4 -1 -1 4 200 -1 1 7 3 1 2 -1 -1 -1
2 15 0 -1 4 -1 -1 4 200 -1 5 7 3 1 2 -1 -1 -1
3 20 0 50 8 -1 -1 8 300 -1 1 8 3 -1 2 -1 -1 -1 {n1,n2} q_2w 2:ppn=4:x86
4 twenty 0 50 8 -1 -1 8 300 -1 1 8 3 -1 2 -1 -1 -1
5 20 0 50
"""
OPENB_NODES = """sn,cpu_milli,memory_mib,gpu,model
openb-node-0000,64000,262144,2,P100
openb-node-0001,32000,131072,0,
openb-node-0002,many,131072,0,
"""
OPENB_PODS = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
openb-pod-0000,12000,16384,1,460,,LS,Running,100,700,130
openb-pod-0001,6000,12288,2,1000,V100M16|V100M32,LS,Succeeded,50,650,50
openb-pod-0002,500,1024,0,0,,BE,Pending,60,660,
openb-pod-0003,500,1024,1,2000,,BE,Pending,60,660,
openb-pod-0004,500,1024,0,0,,BE,Pending,60,10,70
"""  # noqa: E501 -- as the publisher writes lines
PHILLY = """timestamp,duration,num_gpus,gpu_time,cluster
2017-10-09 07:01:55,66.0,1,66.0,11cb48
2017-10-09 06:13:03,2951.0,8,23608.0,6214e9
yesterday,2951.0,8,23608.0,6214e9
2017-10-09 06:13:03,2951.0,8
"""
PHILLY_JSON = """[{"status": "Pass", "vc": "ee9e8c", "jobid": "application_1506638472019_14199", "attempts": [
 {"start_time": "2017-10-07 01:12:09", "end_time": "2017-10-07 01:13:23", "detail": [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}]},
 {"start_time": "2017-10-07 01:13:30", "end_time": "2017-10-07 01:14:30", "detail": [{"ip": "m4", "gpus": ["gpu0", "gpu1"]}]}],
 "submitted_time": "2017-10-07 01:11:39", "user": "ce2f4c"},
{"status": "Killed", "vc": "ee9e8c", "jobid": "application_2", "attempts": [], "submitted_time": "2017-10-07 01:11:39", "user": "u"},
{"status": "Failed", "vc": "ed69ec", "jobid": "application_3", "submitted_time": "2017-10-07 02:11:39", "user": null,
 "attempts": [{"start_time": "2017-10-07 02:12:00", "end_time": null, "detail": []}]},
{"status": "Failed", "vc": "ed69ec", "jobid": 3, "attempts": []}
]
"""  # noqa: E501 -- as the publisher writes lines
CHRONUS = """job_id,user,num_gpu,submit_time,iterations,model_name,duration,interval,expect_time_list,expect_value_list,best_effort,job_type
0,vc_6214e9,1,8555,5049,vgg16,747,14,1105,10,0,strict
1,vc_ed69ec,0,832,296,mobilenet_v2,98,8,159-189-229,10-8-5,0,soft
2,vc_ee9e8c,4,14341,3621,alexnet,30,17,14341,10,1,best
x,vc_ee9e8c,four,14341,3621,alexnet,30,17,14341,10,1,best
"""  # noqa: E501 -- as the publisher writes lines
ELASTICFLOW = """job_id,submit_time,real_iteration,model_name,ddl,batch_size,num_gpu,real_duration,duration,iteration
0,100,1282877,vgg16,771220,256,1,976570,976570,1282877
1,219316,26446831,vgg16,2065619,64,4,1792395,1792395,26446831
2,-5,26446831,vgg16,2065619,64,4,1792395,1792395,26446831
"""
HELIOS = """job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue
1425511,uXBbc,vcJkd,1,1,1,COMPLETED,2020-06-09 18:41:01,2020-06-09 18:41:01,2020-06-10 04:55:09,36848,0
1425512,uVMrF,vcjkd,16,32,2,FAILED,2020-06-09 18:41:27,2020-06-09 18:41:57,2020-06-09 18:45:36,249,30
1425513,uVMrF,vcJkd,3,6,2,TIMEOUT,2020-06-09 18:41:27,2020-06-09 18:41:57,2020-06-09 18:45:36,249,30
1425514,uVMrF,vcJkd,0,6,1,CANCELLED,2020-06-09 18:41:27,,,0,0
1425515,uVMrF,vcJkd,0,6,1,CANCELLED,soon,,,1,0
"""
ALIBABA_2018 = """M1,2,1,j_1,Terminated,100,110,100,0.5
R2_1,3,1,j_1,Terminated,110,150,50,0.3
J3_1_2_9,1,1,j_1,Terminated,150,151,,
task_Nzg3ODAwNDgzMTAwNTc2NTQ2Mw==,1,1,j_2,Failed,100,110,100,0.5
task_Nzg3ODAwNDgzMTAwNTc2NTQ2Mw==,1,1,j_3,Terminated,0,110,100,0.5
task_Nzg3ODAwNDgzMTAwNTc2NTQ2Mw==,1,1,j_4,Terminated,200,210,100,0.5
M1,2,1,j_5,Terminated,100,110,100
M1,two,1,j_5,Terminated,100,110,100,0.5
"""
CLOUDSIMPY = """,submit_time,duration,cpu,memory,job_id,task_id,instances_num,disk
0,539,116.5,1.0,0.005,1,1,283,0
1,539,73.5,0.5,0.0078,1,2_1,67,0
2,7448,87.4,0.5,0.0078,9,24,1,0
3,7448,87.4,0.5,7,9,25,1,0
"""
PAI_TASKS = """4f057009a5d481acec67b088,tensorflow,1.0,Terminated,1739162.0,1739200.0,600.0,29.296875,50.0,MISC
4f057009a5d481acec67b089,worker,2.0,Failed,1739100.0,1739200.0,400.0,29.296875,200.0,T4
4f057009a5d481acec67b08a,worker,2.0,Running,1739100.0,,400.0,29.296875,200.0,T4
4f057009a5d481acec67b08b,worker,many,Failed,1739100.0,1739200.0,400.0,29.296875,200.0,T4
"""
PAI_JOBS = """4f057009a5d481acec67b088,8cb3bec23d14dbde320b6613452e768cbbf35b8bd64ee28fcceb77d3c47d,58540f191766,Terminated,1739152.0,1739200.0
"""  # noqa: E501 -- as the publisher writes lines
PAI_MACHINES = """471dda9ed84965451e042145,P100,64,512,2
471dda9ed84965451e042146,CPU,96,512,0
"""
GOOGLE_2011 = """0,2,3418309,0,4155527081,0,70s3v5q=,3,9,0.125,0.07446,0.0004244,0
1000000,,3418309,0,4155527081,1,70s3v5q=,3,9,0.125,0.07446,0.0004244,0
1000000,,3418309,1,,0,70s3v5q=,3,9,0.125,0.07446,0.0004244,0
1000000,,3418309,2,,0,70s3v5q=,3,9,0.125,0.07446,0.0004244,0
2000000,,3418309,1,4155527081,1,70s3v5q=,3,9,,,,0
2000000,,3418309,2,4155527081,1,70s3v5q=,3,9,,,,0
5000000,,3418309,1,4155527081,2,70s3v5q=,3,9,,,,0
6000000,,3418309,1,4155527081,1,70s3v5q=,3,9,,,,0
9000000,,3418309,0,4155527081,4,70s3v5q=,3,9,0.125,0.07446,0.0004244,0
12000000,,3418309,1,4155527081,4,70s3v5q=,3,9,0.125,0.07446,0.0004244,0
15000000,,3418309,2,4155527081,5,70s3v5q=,3,9,0.125,0.07446,0.0004244,0
16000000,,99,0,4155527081,4,70s3v5q=,3,9,0.125,0.07446,0.0004244,0
17000000,,99,0,4155527081,fourteen,70s3v5q=,3,9,0.125,0.07446,0.0004244,0
9223372036854775807,,98,0,,0,70s3v5q=,3,9,0.125,0.07446,0.0004244,0
"""
GOOGLE_2011_MACHINES = """0,5,0,HofLGzk1Or/8Ildj2+Lqv0UGGvY82NLoni8+J/Yy0RU=,0.5,0.2493
0,6,0,HofLGzk1Or/8Ildj2+Lqv0UGGvY82NLoni8+J/Yy0RU=,0.5,0.2493
836802501,6,1,HofLGzk1Or/8Ildj2+Lqv0UGGvY82NLoni8+J/Yy0RU=,0.5,0.2493
836802502,7,0,HofLGzk1Or/8Ildj2+Lqv0UGGvY82NLoni8+J/Yy0RU=,1,1
"""
GOOGLE_2019 = """{"time":"0","type":"0","collection_id":"1","collection_type":"0","priority":"200","instance_index":"0","resource_request":{"cpus":0.25,"memory":0.125}}
{"time":"1000000","type":"3","collection_id":"1","collection_type":"0","priority":"200","instance_index":"0","machine_id":"7","resource_request":{"cpus":0.25,"memory":0.125}}
{"time":"2000000","type":"SUBMIT","collection_id":"2","collection_type":"1","priority":"200","instance_index":"0"}
{"time":"3000000","type":"SUBMIT","collection_id":"3","collection_type":"0","priority":"200","instance_index":"0","resource_request":{"cpus":0.25,"memory":0.125}}
{"time":"4000000","type":"SCHEDULE","collection_id":"3","collection_type":"0","priority":"200","instance_index":"0"}
{"time":"6000000","type":"6","collection_id":"1","collection_type":"0","priority":"200","instance_index":"0"}
{"time":"9000000","type":"FINISH","collection_id":"3","collection_type":"0","priority":"200","instance_index":"0"}
{"time":"9000000","type":"DANCE","collection_id":"3","collection_type":"0","priority":"200","instance_index":"1"}
{"time":"9000000","type":
"""  # noqa: E501 -- as BigQuery writes lines
GOOGLE_2019_COLLECTIONS = """time,type,collection_id,collection_type,priority,user,start_after_collection_ids
0,0,1,0,200,alice,
0,0,3,0,200,bob,[1]
"""
AZURE = """v1==,s1==,d1==,558300,1673700,91.7,0.7,20.7,Delay-insensitive,8,32
v2==,s1==,d2==,424500,424500,37.8,3.3,37.8,Unknown,>24,>64
v3==,s2==,d2==,424500,425400,37.8,3.3,37.8,Interactive,two,32
"""
LISA = """id,submission_time,duration
1519830,1656604920000,1000
1519833,1656604949500,2500
1522940,1656605275000,long
"""
GAVEL = (
    "Transformer (batch size 128)\tcd %s && python3 train.py\t-step\t1\t1000\t0.000000\t1\n"
    "ResNet-18 (batch size 32)\tpython3 main.py\t/work\t--num_steps\t0\t600\t2\t1.0\t-1.0\t79955.0\n"
    "A3C\tpython3 main.py\t--num_steps\t1\t600\t80000.0\t4\n"
    "A3C\tpython3 main.py\t--num_steps\t1\n"
)
GAVEL_THROUGHPUTS = """{"v100": {"('Transformer (batch size 128)', 1)": {"null": 10.0},
 "('ResNet-18 (batch size 32)', 2)": {"null": 20.0, "('A3C', 1)": [1, 2]}}, "k80": {}}
"""
SACCT = """JobID|JobName|User|Account|Partition|State|Submit|Start|End|Elapsed|Timelimit|NNodes|AllocCPUS|AllocTRES|ReqMem
101|train|alice|ml|gpu|COMPLETED|2024-01-02T03:04:05|2024-01-02T03:05:05|2024-01-02T05:05:05|02:00:00|1-00:00:00|2|64|billing=64,cpu=64,gres/gpu:a100=8,mem=256G,node=2|4Gc
101.batch|batch||ml||COMPLETED|2024-01-02T03:05:05|2024-01-02T03:05:05|2024-01-02T05:05:05|02:00:00||1|32||
102_[5-10]|arr|bob|ml|cpu|PENDING|2024-01-02T03:04:05|Unknown|Unknown|00:00:00|1-00:00:00|1|1||4Gn
102_4|arr|bob|ml|cpu|TIMEOUT|2024-01-02T03:04:05|2024-01-02T03:04:06|2024-01-02T04:04:06|01:00:00|UNLIMITED|1|2||4000Mc
103|x|bob|ml|cpu|CANCELLED by 12|2024-01-02T03:04:05|None|2024-01-02T04:04:06|00:00:00|UNLIMITED|1|1||
104|x|bob|ml|cpu|FAILED|2024-01-02T03:04:05|2024-01-02T03:04:06|2024-01-02T04:04:06|junk|UNLIMITED|1|1||
"""  # noqa: E501 -- as sacct prints lines
KUBECTL = """apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Node
  metadata: {name: n1, labels: {kubernetes.io/hostname: n1, zone: a}}
  status: {allocatable: {cpu: "8", memory: 32Gi, nvidia.com/gpu: "4"}}
- apiVersion: scheduling.volcano.sh/v1beta1
  kind: PodGroup
  metadata: {name: train, namespace: ml}
  spec: {minMember: 1, queue: research}
- &pod
  apiVersion: v1
  kind: Pod
  metadata: &meta
    name: train-0
    namespace: ml
    creationTimestamp: "2024-01-02T03:00:00Z"
    annotations: {scheduling.k8s.io/group-name: train}
    labels: {volcano.sh/job-name: train}
  spec: {priority: 7, containers: [{name: a, image: b, resources: {requests: {cpu: 500m, nvidia.com/gpu: "1"}}}]}
  status:
    phase: Succeeded
    containerStatuses:
    - name: a
      state: {terminated: {exitCode: 0, startedAt: "2024-01-02T03:01:00Z", finishedAt: "2024-01-02T03:11:00Z"}}
- <<: *pod
  metadata: {<<: *meta, name: train-1}
- apiVersion: v1
  kind: Pod
  metadata: {name: runs, namespace: ml}
  status: {phase: Running}
- apiVersion: batch.volcano.sh/v1alpha1
  kind: Job
  metadata: {name: train, namespace: ml, creationTimestamp: "2024-01-02T03:00:00Z"}
- apiVersion: batch.volcano.sh/v1alpha1
  kind: Job
  metadata: {name: mpi, namespace: ml, creationTimestamp: "2024-01-02T04:00:00Z"}
  spec:
    minAvailable: 3
    queue: q
    tasks:
    - name: master
      replicas: 1
      template: {spec: {containers: [{name: a, image: b, resources: {requests: {cpu: "1"}}}]}}
    - name: worker
      replicas: 2
      template: {spec: {containers: [{name: a, image: b, resources: {requests: {cpu: "2"}}}]}}
  status: {state: {phase: Completed}, runningDuration: 1m30s}
- apiVersion: batch/v1
  kind: Job
  metadata: {name: etl, namespace: ops, creationTimestamp: "2024-01-02T05:00:00Z"}
  spec: {completions: 3, template: {spec: {containers: [{name: a, image: b}]}}}
  status: {startTime: "2024-01-02T05:00:10Z", completionTime: "2024-01-02T05:01:10Z"}
- apiVersion: v1
  kind: Pod
  metadata: {name: bad, namespace: ml}
  spec: {containers: 5}
- apiVersion: v1
  kind: Service
  metadata: {name: s}
"""
MAPPING = """kind: TraceMapping
files: [data.csv]
delimiter: ";"
columns:
  name: id
  submit: {column: when, unit: time}
  run_time: {start: b, end: e, unit: ms}
  cpu: {value: 2}
  memory: {column: mem, unit: GiB}
filters:
- {column: state, in: [OK]}
- {column: b, min: 1000}
"""
MAPPED = """id;when;b;e;mem;state
1;2024-01-01 00:00:00;1000;3000;1.5;OK
2;2024-01-01 00:00:10;1000;3000;x;OK
3;2024-01-01 00:00:10;1000;3000;2;BAD
4;2024-01-01 00:00:10;1;3000;2;OK
5;2024-01-01 00:00:10;4000;3000;2;OK
6;2024-01-01 00:00:10;1000;3500;2;OK
"""
OURS = """# a comment
name,submit,run_time,replicas,cpu,memory,gpu,queue,priority,min_replicas,user,after,deadline,node_selector
a,0,1h30m,4,2,1Gi,1,team,5,2,alice,,7200,zone=a
b,10,60,,,,,,,,,a;c,,
b,10,60,,,,,,,,,,,
c,10,60,,,,,,,,,nobody,,
"""

SAMPLES = (
    Sample("strato", "jobs.csv", OURS),
    Sample("swf", "log.swf", SWF),
    Sample("openb", "openb_pod_list_default.csv", OPENB_PODS),
    Sample("openb", "openb_node_list_all_node.csv", OPENB_NODES),
    Sample("philly", "philly.csv", PHILLY),
    Sample("philly-json", "cluster_job_log", PHILLY_JSON),
    Sample("chronus", "chronus.csv", CHRONUS),
    Sample("elasticflow", "elasticflow.csv", ELASTICFLOW),
    Sample("helios", "cluster_log.csv", HELIOS),
    Sample("alibaba-2018", "batch_task.csv", ALIBABA_2018),
    Sample("cloudsimpy", "jobs.csv", CLOUDSIMPY),
    Sample("alibaba-gpu-2020", "pai_task_table.csv", PAI_TASKS),
    Sample("alibaba-gpu-2020", "pai_job_table.csv", PAI_JOBS),
    Sample("alibaba-gpu-2020", "pai_machine_spec.csv", PAI_MACHINES),
    Sample("google-2011", "part-00000-of-00500.csv", GOOGLE_2011),
    Sample("google-2011", "machine_events.csv", GOOGLE_2011_MACHINES),
    Sample("google-2019", "instance_events-000000000000.json", GOOGLE_2019),
    Sample("google-2019", "collection_events.csv", GOOGLE_2019_COLLECTIONS),
    Sample("azure", "vmtable.csv", AZURE),
    Sample("lisa", "jobs.csv", LISA),
    Sample("gavel", "x.trace", GAVEL),
    Sample("sacct", "sacct.txt", SACCT),
    Sample("kubectl", "dump.yaml", KUBECTL),
    Sample("mapping", "mapping.yaml", MAPPING),
)
