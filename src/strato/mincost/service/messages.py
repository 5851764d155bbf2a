"""The messages of package ``firmament``: field numbers and kinds of what the service reads and writes.

Fields the service has no use for are left out; the codec skips them. Enumerations are integers.
"""

from __future__ import annotations

from strato.mincost.service.codec import Field, Message

VECTOR: Message = {
    1: Field("cpu_cores", "float"),
    2: Field("ram_bw"),
    3: Field("ram_cap"),
    4: Field("disk_bw"),
    5: Field("disk_cap"),
    6: Field("net_tx_bw"),
    7: Field("net_rx_bw"),
    8: Field("ephemeral_storage"),
}
LABEL: Message = {1: Field("key", "string"), 2: Field("value", "string")}
SELECTOR: Message = {1: Field("type"), 2: Field("key", "string"), 3: Field("values", "string", repeated=True)}
TOLERATION: Message = {
    1: Field("key", "string"),
    2: Field("operator", "string"),
    3: Field("value", "string"),
    4: Field("effect", "string"),
}
TAINT: Message = {1: Field("key", "string"), 2: Field("value", "string"), 3: Field("effect", "string")}
MATCH: Message = {1: Field("key", "string"), 2: Field("value", "string")}
REQUIREMENT: Message = {
    1: Field("key", "string"),
    2: Field("operator", "string"),
    3: Field("values", "string", repeated=True),
}
NODE_TERM: Message = {1: Field("expressions", "message", REQUIREMENT, repeated=True)}
PREFERRED: Message = {1: Field("weight"), 2: Field("term", "message", NODE_TERM)}
NODE_AFFINITY: Message = {
    1: Field("required", "message", {1: Field("terms", "message", NODE_TERM, repeated=True)}),
    2: Field("preferred", "message", PREFERRED, repeated=True),
}
POD_SELECTOR: Message = {
    1: Field("labels", "message", MATCH),
    2: Field("expressions", "message", REQUIREMENT, repeated=True),
}
POD_TERM: Message = {
    1: Field("selector", "message", POD_SELECTOR),
    2: Field("namespaces", "string", repeated=True),
    3: Field("topology_key", "string"),
}
WEIGHTED_POD_TERM: Message = {1: Field("weight"), 2: Field("term", "message", POD_TERM)}
POD_AFFINITY: Message = {
    1: Field("required", "message", POD_TERM, repeated=True),
    2: Field("preferred", "message", WEIGHTED_POD_TERM, repeated=True),
}
AFFINITY: Message = {
    1: Field("nodes", "message", NODE_AFFINITY),
    2: Field("pods", "message", POD_AFFINITY),
    3: Field("anti_pods", "message", POD_AFFINITY),
}
AVOIDS: Message = {1: Field("kind", "string"), 2: Field("uid", "string")}
TASK: Message = {
    1: Field("uid"),
    2: Field("name", "string"),
    3: Field("state"),
    4: Field("job_id", "string"),
    5: Field("index"),
    8: Field("binary", "string"),
    26: Field("resource_request", "message", VECTOR),
    27: Field("priority"),
    28: Field("task_type"),
    32: Field("labels", "message", LABEL, repeated=True),
    33: Field("label_selectors", "message", SELECTOR, repeated=True),
    34: Field("affinity", "message", AFFINITY),
    35: Field("task_namespace", "string"),
    36: Field("tolerations", "message", TOLERATION, repeated=True),
    37: Field("owner_ref_kind", "string"),
    38: Field("owner_ref_uid", "string"),
}
JOB: Message = {
    1: Field("uuid", "string"),
    2: Field("name", "string"),
    3: Field("state"),
    6: Field("min_number_of_tasks"),
    8: Field("is_gang_scheduling_job", "bool"),
}
TASK_DESCRIPTION: Message = {1: Field("task_descriptor", "message", TASK), 2: Field("job_descriptor", "message", JOB)}
RESOURCE: Message = {
    1: Field("uuid", "string"),
    2: Field("friendly_name", "string"),
    5: Field("task_capacity"),
    7: Field("type"),
    8: Field("schedulable", "bool"),
    13: Field("reserved_resources", "message", VECTOR),
    18: Field("resource_capacity", "message", VECTOR),
    32: Field("labels", "message", LABEL, repeated=True),
    33: Field("taints", "message", TAINT, repeated=True),
    34: Field("avoids", "message", AVOIDS, repeated=True),
    35: Field("max_pods"),
}
_TOPOLOGY: dict[int, Field] = {1: Field("resource_desc", "message", RESOURCE), 3: Field("parent_id", "string")}
_TOPOLOGY[2] = Field("children", "message", _TOPOLOGY, repeated=True)
TOPOLOGY: Message = _TOPOLOGY
TASK_UID: Message = {1: Field("task_uid")}
RESOURCE_UID: Message = {1: Field("resource_uid", "string")}
REPLY: Message = {1: Field("type")}
DELTA: Message = {1: Field("task_id"), 2: Field("resource_id", "string"), 3: Field("type")}
DELTAS: Message = {1: Field("deltas", "message", DELTA, repeated=True), 2: Field("unscheduled_tasks", repeated=True)}
TASK_INFO: Message = {
    1: Field("task_name", "string"),
    2: Field("resource_id", "string"),
    3: Field("cpu_utilization"),
    4: Field("mem_utilization"),
    5: Field("ephemeral_storage_utilization"),
    6: Field("type"),
}
CPU_STATS: Message = {
    1: Field("cpu_allocatable"),
    2: Field("cpu_capacity"),
    3: Field("cpu_reservation", "double"),
    4: Field("cpu_utilization", "double"),
}
RESOURCE_STATS: Message = {
    1: Field("resource_id", "string"),
    2: Field("timestamp"),
    3: Field("cpus_stats", "message", CPU_STATS, repeated=True),
    7: Field("mem_utilization", "double"),
    8: Field("disk_bw"),
    9: Field("net_rx_bw"),
    10: Field("net_tx_bw"),
}
TASK_STATS: Message = {
    1: Field("task_id"),
    2: Field("hostname", "string"),
    3: Field("timestamp"),
    5: Field("cpu_request"),
    6: Field("cpu_usage"),
    8: Field("mem_request"),
    9: Field("mem_usage"),
    17: Field("net_rx"),
    21: Field("net_tx"),
}
HEALTH_REQUEST: Message = {1: Field("grpc_service", "string")}
HEALTH: Message = {1: Field("status")}
EMPTY: Message = {}
