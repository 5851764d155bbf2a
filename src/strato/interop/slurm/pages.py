"""The output of ``scontrol show``: members as ``Name=value``, a few on each line. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from strato.interop.slurm.jobs import JobView, Json
from strato.interop.slurm.nodes import DEFAULT_PARTITION, NodeView
from strato.interop.slurm.texts import hostlist


def job_page(view: JobView) -> list[str]:
    """Return the lines about a job."""
    of = view.fields
    memory, restarts = of["minmemory"], (view.job.get("status") or {}).get("retryCount", 0)
    return [
        f"JobId={of['jobid']} JobName={of['name']}",
        f"   UserId={of['username'] or 'nobody'} Account={of['account'] or '(null)'} QOS={of['qos']}",
        f"   JobState={of['state']} Reason={of['reason']} Dependency={of['dependency'] or '(null)'}",
        f"   Requeue=0 Restarts={restarts} BatchFlag=1 ExitCode={of['exitcode']}",
        f"   RunTime={of['elapsed']} TimeLimit={of['timelimit']} TimeMin=N/A",
        f"   SubmitTime={of['submittime']} EligibleTime={of['submittime']}",
        f"   StartTime={of['started']} EndTime={of['ended']} Deadline=N/A",
        f"   Partition={of['partition']}",
        f"   NodeList={of['nodelist'] or '(null)'}",
        f"   NumNodes={of['numnodes']} NumCPUs={of['numcpus']} NumTasks={of['numnodes']}",
        f"   MinMemoryNode={memory} TresPerNode={of['tres-per-node']}",
        f"   Command={of['command']}",
        f"   WorkDir={of['workdir']}",
        *([f"   Comment={of['comment']}"] if of["comment"] else []),
    ]


def node_page(node: NodeView) -> list[str]:
    """Return the lines about a node."""
    return [
        f"NodeName={node.name}",
        f"   CPUAlloc={node.used_cpus} CPUEfctv={node.cpus} CPUTot={node.cpus}",
        f"   Gres={f'gpu:{node.gpus}' if node.gpus else '(null)'}",
        f"   NodeHostName={node.name}",
        f"   RealMemory={node.memory_mebibytes} AllocMem={node.used_mebibytes}",
        f"   State={node.state.upper()}",
        *([f"   Reason={node.reason}"] if node.reason != "none" else []),
    ]


def partition_page(queue: Json, nodes: Sequence[NodeView]) -> list[str]:
    """Return the lines about a queue."""
    name = queue["metadata"]["name"]
    state = ((queue.get("status") or {}).get("state") or "Open") == "Open"
    return [
        f"PartitionName={name}",
        f"   Default={'YES' if name == DEFAULT_PARTITION else 'NO'} MaxTime=UNLIMITED",
        f"   Nodes={hostlist(node.name for node in nodes)}",
        f"   State={'UP' if state else 'DOWN'} TotalCPUs={sum(node.cpus for node in nodes)} TotalNodes={len(nodes)}",
    ]
