// A day of Poseidon at a Firmament service, through Poseidon's own client (package firmament of its last release):
//
//	poseidon HOST:PORT
//
// The calls come in the order in which Poseidon's watchers make them. The client ends the process itself at every answer
// it does not expect, as it ends Poseidon; what it would pass over is looked at here. Prints "ok …" for each thing that
// holds and "FAIL …" for what does not.
package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/kubernetes-sigs/poseidon/pkg/firmament"
)

const job = "4c1a2f9e-0000-4000-8000-000000000001"

var failed = false

func expect(what string, holds bool, found ...interface{}) {
	if holds {
		fmt.Println("ok", what)
		return
	}
	failed = true
	fmt.Println(append([]interface{}{"FAIL", what, "found:"}, found...)...)
}

func room(cpu float32, memory uint64) *firmament.ResourceVector {
	return &firmament.ResourceVector{CpuCores: cpu, RamCap: memory * 1000, EphemeralCap: memory * 1000}
}

func node(name string, pods uint64) *firmament.ResourceTopologyNodeDescriptor {
	labels := []*firmament.Label{{Key: "kubernetes.io/hostname", Value: name}}
	pu := &firmament.ResourceDescriptor{
		Uuid: name + "-pu", Type: firmament.ResourceDescriptor_RESOURCE_PU, State: firmament.ResourceDescriptor_RESOURCE_IDLE,
		FriendlyName: name + "_PU #0", ResourceCapacity: room(4000, 8<<30), Labels: labels,
	}
	return &firmament.ResourceTopologyNodeDescriptor{
		ResourceDesc: &firmament.ResourceDescriptor{
			Uuid: name + "-id", Type: firmament.ResourceDescriptor_RESOURCE_MACHINE,
			State: firmament.ResourceDescriptor_RESOURCE_IDLE, FriendlyName: name, Labels: labels, MaxPods: pods,
			ResourceCapacity: room(4000, 8<<30), AvailableResources: room(3900, 7<<30), ReservedResources: room(100, 1<<30),
		},
		Children: []*firmament.ResourceTopologyNodeDescriptor{{ResourceDesc: pu, ParentId: name + "-id"}},
	}
}

func task(number uint64, selectors ...*firmament.LabelSelector) *firmament.TaskDescription {
	return &firmament.TaskDescription{
		TaskDescriptor: &firmament.TaskDescriptor{
			Uid: 1<<63 + number, Name: fmt.Sprintf("default/pod-%d", number), Namespace: "default", JobId: job,
			State: firmament.TaskDescriptor_CREATED, ResourceRequest: room(500, 1<<29), LabelSelectors: selectors,
			Labels:       []*firmament.Label{{Key: "app", Value: "web"}},
			OwnerRefKind: "ReplicaSet", OwnerRefUid: "rs", TaskType: firmament.TaskDescriptor_RABBIT,
		},
		JobDescriptor: &firmament.JobDescriptor{Uuid: job, Name: "web", State: firmament.JobDescriptor_CREATED},
	}
}

func on(name string) *firmament.LabelSelector {
	return &firmament.LabelSelector{
		Type: firmament.LabelSelector_IN_SET, Key: "kubernetes.io/hostname", Values: []string{name},
	}
}

func places(deltas *firmament.SchedulingDeltas) map[uint64]string {
	found := map[uint64]string{}
	for _, delta := range deltas.GetDeltas() {
		if delta.Type == firmament.SchedulingDelta_PLACE {
			found[delta.TaskId-1<<63] = delta.ResourceId
		}
	}
	return found
}

// drop makes a second connection and closes it, and the socket of a third, while calls are under way.
func drop(address string) {
	client, conn, err := firmament.New(address)
	expect("a second client connects", err == nil, err)
	var done sync.WaitGroup
	for i := 0; i < 20; i++ {
		done.Add(1)
		go func() {
			defer done.Done()
			_, _ = client.Schedule(context.Background(), &firmament.ScheduleRequest{})
		}()
	}
	conn.Close()
	done.Wait()
	raw, err := net.Dial("tcp", address)
	expect("a socket connects", err == nil, err)
	_, _ = raw.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x10\x01"))
	raw.Close()
}

func main() {
	address := os.Args[1]
	client, conn, err := firmament.New(address)
	expect("the client connects", err == nil, err)
	defer conn.Close()
	serving := false
	for i := 0; i < 600 && !serving; i++ {
		if serving, _ = firmament.Check(client, &firmament.HealthCheckRequest{}); !serving {
			time.Sleep(100 * time.Millisecond)
		}
	}
	expect("the service says that it serves", serving)

	firmament.NodeAdded(client, node("n1", 20))
	firmament.NodeAdded(client, node("n2", 20))
	firmament.NodeAdded(client, node("n2", 20))
	firmament.AddTaskInfo(client, &firmament.TaskInfo{
		TaskName: "kube-system/dns", ResourceId: "n1-id", CpuUtilization: 3000, Type: firmament.TaskInfoType_TASKINFO_ADD,
	})
	firmament.AddNodeStats(client, &firmament.ResourceStats{
		ResourceId: "n1-id", Timestamp: 1, CpusStats: []*firmament.CpuStats{{CpuAllocatable: 900, CpuCapacity: 4000}},
	})
	var workers sync.WaitGroup
	for worker := 0; worker < 10; worker++ {
		workers.Add(1)
		go func(number uint64) {
			defer workers.Done()
			firmament.TaskSubmitted(client, task(number))
		}(uint64(worker))
	}
	workers.Wait()
	firmament.TaskSubmitted(client, task(10, on("n1")))
	firmament.TaskSubmitted(client, task(11, on("nowhere")))

	found := firmament.Schedule(client)
	placed, count := places(found), map[string]int{}
	for _, unit := range placed {
		count[unit]++
	}
	// n1 has 900 millicores left beside its reserve and the other scheduler's pod, n2 3900; fits are strict
	expect("what fits is placed on the nodes' PUs", count["n1-pu"] == 1 && count["n2-pu"] == 7, count)
	expect("a node selector is kept", placed[11] == "" && (placed[10] == "" || placed[10] == "n1-pu"), placed)
	expect("who waits is reported", len(found.GetUnscheduledTasks()) == 12-len(placed), found.GetUnscheduledTasks())
	expect("nothing is decided twice", len(firmament.Schedule(client).GetDeltas()) == 0)

	var some []uint64
	for number := uint64(0); number < 10; number++ {
		if placed[number] == "n2-pu" {
			some = append(some, 1<<63+number)
		}
	}
	firmament.AddTaskStats(client, &firmament.TaskStats{TaskId: some[0], Hostname: "n2", CpuRequest: 500, CpuUsage: 90})
	firmament.TaskUpdated(client, task(some[0]-1<<63))
	firmament.TaskCompleted(client, &firmament.TaskUID{TaskUid: some[0]})
	firmament.TaskRemoved(client, &firmament.TaskUID{TaskUid: some[0]})
	firmament.TaskFailed(client, &firmament.TaskUID{TaskUid: some[1]})
	firmament.TaskRemoved(client, &firmament.TaskUID{TaskUid: some[1]})
	firmament.TaskRemoved(client, &firmament.TaskUID{TaskUid: some[2]})
	again := places(firmament.Schedule(client))
	expect("what ends makes room for who waits", len(again) > 0 && len(again) <= 3, again)

	drop(address)
	firmament.TaskSubmitted(client, task(20, on("n2")))
	firmament.NodeUpdated(client, node("n2", 30))
	firmament.TaskRemoved(client, &firmament.TaskUID{TaskUid: some[3]})
	firmament.TaskRemoved(client, &firmament.TaskUID{TaskUid: some[4]})
	after := firmament.Schedule(client)
	expect("clients that drop harm nobody", places(after)[20] == "n2-pu", after)

	firmament.AddTaskInfo(client, &firmament.TaskInfo{TaskName: "kube-system/dns", Type: firmament.TaskInfoType_TASKINFO_REMOVE})
	firmament.NodeFailed(client, &firmament.ResourceUID{ResourceUid: "n2-id"})
	firmament.TaskFailed(client, &firmament.TaskUID{TaskUid: 1<<63 + 20})
	firmament.TaskRemoved(client, &firmament.TaskUID{TaskUid: 1<<63 + 20})
	firmament.NodeAdded(client, node("n2", 30))
	firmament.TaskSubmitted(client, task(21, on("n2")))
	back := places(firmament.Schedule(client))
	expect("a node that failed comes back", back[21] == "n2-pu", back)
	firmament.NodeRemoved(client, &firmament.ResourceUID{ResourceUid: "n2-id"})
	firmament.NodeRemoved(client, &firmament.ResourceUID{ResourceUid: "n1-id"})
	if failed {
		os.Exit(1)
	}
}
