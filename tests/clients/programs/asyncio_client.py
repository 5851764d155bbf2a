"""What kubernetes-asyncio does in a namespace: objects, a watch beside other work, apply, logs and commands."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from kubernetes_asyncio import client, config, watch
from kubernetes_asyncio.dynamic import DynamicClient
from kubernetes_asyncio.stream import WsApiClient

NAMESPACE = sys.argv[1]
MAIN = {"name": "main", "image": "strato/host", "command": ["sh", "-c", "echo started; exec sleep 3600"]}
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "worker"},
    "spec": {"containers": [MAIN], "restartPolicy": "Never", "terminationGracePeriodSeconds": 1},
}


async def wait_for_running(core: client.CoreV1Api) -> None:
    async with watch.Watch().stream(core.list_namespaced_pod, NAMESPACE, timeout_seconds=120) as events:
        async for event in events:
            if event["object"].status.phase == "Running":
                return


async def main() -> None:
    await config.load_kube_config()
    async with client.ApiClient() as api:
        core = client.CoreV1Api(api)
        running = asyncio.create_task(wait_for_running(core))
        await core.create_namespaced_pod(NAMESPACE, POD)
        await running
        print("ok a pod is watched until it runs")
        await core.patch_namespaced_pod("worker", NAMESPACE, {"metadata": {"labels": {"patched": "yes"}}})
        found = await core.list_namespaced_pod(NAMESPACE, label_selector="patched=yes")
        assert [item.metadata.name for item in found.items] == ["worker"]
        print("ok it is patched and listed by label")
        dynamic = await DynamicClient(api)
        maps = await dynamic.resources.get(api_version="v1", kind="ConfigMap")
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}, "data": {"a": "1"}}
        applied = await maps.server_side_apply(body=body, namespace=NAMESPACE, field_manager="program")
        assert [entry.manager for entry in applied.metadata.managedFields] == ["program"]
        print("ok the dynamic client applies")
        assert await core.read_namespaced_pod_log("worker", NAMESPACE) == "started\n"
        async with watch.Watch().stream(core.read_namespaced_pod_log, "worker", NAMESPACE) as lines:
            async for line in lines:
                assert line == "started\n", line
                break
        print("ok its log is read and followed")
    async with WsApiClient() as sockets:
        streams = client.CoreV1Api(sockets)
        said = await streams.connect_get_namespaced_pod_exec(
            "worker", NAMESPACE, command=["sh", "-c", "echo hello"], stdout=True, stderr=True
        )
        assert "hello\n" in said, said
        connecting = await streams.connect_get_namespaced_pod_exec(
            "worker", NAMESPACE, command=["sh", "-c", "exit 7"], stdout=True, stderr=True, _preload_content=False
        )
        async with connecting as connection:
            async for message in connection:
                if message.data[:1] == b"\x03":
                    assert WsApiClient.parse_error_data(message.data[1:]) == 7
        print("ok commands run in it")


asyncio.run(main())
