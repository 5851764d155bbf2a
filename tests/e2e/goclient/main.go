// Exercises Volcano's typed Go client against the cluster of KUBECONFIG: every kind is created, read, listed, updated,
// patched, watched, seen by an informer and deleted; a leader is elected; pods come in groups as operators make them.
// Prints a line for every check, "ok NAME" or "FAILED NAME: why", and leaves with 1 when any failed.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	bus "volcano.sh/apis/pkg/apis/bus/v1alpha1"
	colocation "volcano.sh/apis/pkg/apis/config/v1alpha1"
	flow "volcano.sh/apis/pkg/apis/flow/v1alpha1"
	nodeinfo "volcano.sh/apis/pkg/apis/nodeinfo/v1alpha1"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	shard "volcano.sh/apis/pkg/apis/shard/v1alpha1"
	topology "volcano.sh/apis/pkg/apis/topology/v1alpha1"
	"volcano.sh/apis/pkg/client/clientset/versioned"
	"volcano.sh/apis/pkg/client/informers/externalversions"
)

const patience = 60 * time.Second

var failed = false

func report(name string, err error) {
	if err != nil {
		failed = true
		fmt.Printf("FAILED %s: %v\n", name, err)
		return
	}
	fmt.Printf("ok %s\n", name)
}

type object interface {
	metav1.Object
}

// client is what every typed client of a kind offers; L is its list.
type client[T any, L any] interface {
	Create(context.Context, *T, metav1.CreateOptions) (*T, error)
	Get(context.Context, string, metav1.GetOptions) (*T, error)
	List(context.Context, metav1.ListOptions) (L, error)
	Update(context.Context, *T, metav1.UpdateOptions) (*T, error)
	Patch(context.Context, string, types.PatchType, []byte, metav1.PatchOptions, ...string) (*T, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
	Delete(context.Context, string, metav1.DeleteOptions) error
}

// exercise takes one object through its life and checks that everybody who looks sees it.
func exercise[T any, P interface {
	*T
	object
}, L any](ctx context.Context, kind string, c client[T, L], informer cache.SharedIndexInformer, made P) {
	name := made.GetName()
	step := func(verb string, err error) bool {
		report(kind+" "+verb, err)
		return err == nil
	}
	watching, err := c.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if !step("watch", err) {
		return
	}
	defer watching.Stop()
	created, err := c.Create(ctx, made, metav1.CreateOptions{})
	if !step("create", err) {
		return
	}
	step("create answers an identity", present(P(created).GetUID() != "" && P(created).GetResourceVersion() != ""))
	// Whoever reads and writes an object back must not be told that it has changed it.
	step("update", retry(ctx, func() error {
		read, err := c.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		P(read).SetLabels(map[string]string{"seen": "yes"})
		_, err = c.Update(ctx, read, metav1.UpdateOptions{})
		return err
	}))
	patched, err := c.Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"annotations":{"a":"b"}}}`),
		metav1.PatchOptions{FieldManager: "goclient"})
	if step("patch", err) {
		step("patch keeps the update", present(P(patched).GetLabels()["seen"] == "yes"))
	}
	_, err = c.List(ctx, metav1.ListOptions{LabelSelector: "seen=yes"})
	step("list", err)
	key := name
	if made.GetNamespace() != "" {
		key = made.GetNamespace() + "/" + name
	}
	step("informer", eventually(ctx, func() bool {
		item, exists, err := informer.GetStore().GetByKey(key)
		return err == nil && exists && item.(metav1.Object).GetAnnotations()["a"] == "b"
	}))
	step("delete", c.Delete(ctx, name, metav1.DeleteOptions{}))
	seen := []watch.EventType{}
	deadline := time.After(patience)
	for len(seen) == 0 || seen[len(seen)-1] != watch.Deleted {
		select {
		case event := <-watching.ResultChan():
			seen = append(seen, event.Type)
		case <-deadline:
			step("watch ends with the deletion", fmt.Errorf("saw %v", seen))
			return
		}
	}
	step("watch begins with the creation", present(seen[0] == watch.Added))
}

func present(is bool) error {
	if !is {
		return fmt.Errorf("is not so")
	}
	return nil
}

func retry(ctx context.Context, try func() error) error {
	var err error
	for attempt := 0; attempt < 10; attempt++ {
		if err = try(); err == nil {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return err
}

func eventually(ctx context.Context, probe func() bool) error {
	deadline := time.Now().Add(patience)
	for !probe() {
		if time.Now().After(deadline) {
			return fmt.Errorf("not within %v", patience)
		}
		time.Sleep(50 * time.Millisecond)
	}
	return nil
}

func podSpec() corev1.PodSpec {
	small := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("16Mi")}
	return corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever,
		Containers: []corev1.Container{{
			Name: "c", Image: "busybox", Command: []string{"sleep", "3600"},
			Resources: corev1.ResourceRequirements{Requests: small},
		}},
	}
}

func jobSpec() batch.JobSpec {
	return batch.JobSpec{
		SchedulerName: "volcano",
		MinAvailable:  1,
		Plugins:       map[string][]string{"svc": {}, "env": {}},
		Policies:      []batch.LifecyclePolicy{{Event: bus.PodEvictedEvent, Action: bus.RestartJobAction}},
		Tasks: []batch.TaskSpec{{
			Name: "w", Replicas: 2,
			Policies: []batch.LifecyclePolicy{{Event: bus.TaskCompletedEvent, Action: bus.CompleteJobAction}},
			Template: corev1.PodTemplateSpec{Spec: podSpec()},
		}},
	}
}

func meta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

func everyKind(ctx context.Context, ns string, vc versioned.Interface) {
	factory := externalversions.NewSharedInformerFactory(vc, 0)
	batchInformers, schedulingInformers := factory.Batch().V1alpha1(), factory.Scheduling().V1beta1()
	jobs, crons := batchInformers.Jobs().Informer(), batchInformers.CronJobs().Informer()
	groups, queues := schedulingInformers.PodGroups().Informer(), schedulingInformers.Queues().Informer()
	commands := factory.Bus().V1alpha1().Commands().Informer()
	flows, templates := factory.Flow().V1alpha1().JobFlows().Informer(), factory.Flow().V1alpha1().JobTemplates().Informer()
	numa := factory.Nodeinfo().V1alpha1().Numatopologies().Informer()
	hyper := factory.Topology().V1alpha1().HyperNodes().Informer()
	shards := factory.Shard().V1alpha1().NodeShards().Informer()
	configurations := factory.Config().V1alpha1().ColocationConfigurations().Informer()
	factory.Start(ctx.Done())
	synced := factory.WaitForCacheSync(ctx.Done())
	for kind, is := range synced {
		report(fmt.Sprintf("informer of %v has synced", kind), present(is))
	}
	exercise(ctx, "Job", vc.BatchV1alpha1().Jobs(ns), jobs, &batch.Job{ObjectMeta: meta(ns, "go-job"), Spec: jobSpec()})
	exercise(ctx, "CronJob", vc.BatchV1alpha1().CronJobs(ns), crons, &batch.CronJob{
		ObjectMeta: meta(ns, "go-cron"),
		Spec:       batch.CronJobSpec{Schedule: "0 0 1 1 *", JobTemplate: batch.JobTemplateSpec{Spec: jobSpec()}},
	})
	exercise(ctx, "PodGroup", vc.SchedulingV1beta1().PodGroups(ns), groups, &scheduling.PodGroup{
		ObjectMeta: meta(ns, "go-group"),
		Spec:       scheduling.PodGroupSpec{MinMember: 3, Queue: "default"},
	})
	exercise(ctx, "Queue", vc.SchedulingV1beta1().Queues(), queues, &scheduling.Queue{
		ObjectMeta: meta("", "go-queue-"+ns),
		Spec: scheduling.QueueSpec{
			Weight:     2,
			Capability: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1500m")},
		},
	})
	exercise(ctx, "Command", vc.BusV1alpha1().Commands(ns), commands, &bus.Command{
		ObjectMeta:   meta(ns, "go-command"),
		Action:       string(bus.AbortJobAction),
		TargetObject: &metav1.OwnerReference{APIVersion: "example.org/v1", Kind: "Thing", Name: "x", UID: "x"},
	})
	exercise(ctx, "JobTemplate", vc.FlowV1alpha1().JobTemplates(ns), templates, &flow.JobTemplate{
		ObjectMeta: meta(ns, "go-template"), Spec: jobSpec(),
	})
	exercise(ctx, "JobFlow", vc.FlowV1alpha1().JobFlows(ns), flows, &flow.JobFlow{
		ObjectMeta: meta(ns, "go-flow"),
		Spec: flow.JobFlowSpec{
			JobRetainPolicy: flow.Delete,
			Flows:           []flow.Flow{{Name: "none"}, {Name: "later", DependsOn: &flow.DependsOn{Targets: []string{"none"}}}},
		},
	})
	exercise(ctx, "Numatopology", vc.NodeinfoV1alpha1().Numatopologies(), numa, &nodeinfo.Numatopology{
		ObjectMeta: meta("", "go-numa-"+ns),
		Spec: nodeinfo.NumatopoSpec{
			Policies:    map[nodeinfo.PolicyName]string{nodeinfo.CPUManagerPolicy: "static"},
			NumaResMap:  map[string]nodeinfo.ResourceInfo{"cpu": {Allocatable: "0-3", Capacity: 4}},
			CPUDetail:   map[string]nodeinfo.CPUInfo{"0": {NUMANodeID: 0}},
			ResReserved: map[string]string{"cpu": "1"},
		},
	})
	exercise(ctx, "HyperNode", vc.TopologyV1alpha1().HyperNodes(), hyper, &topology.HyperNode{
		ObjectMeta: meta("", "go-hyper-"+ns),
		Spec: topology.HyperNodeSpec{Tier: 1, Members: []topology.MemberSpec{{
			Type:     topology.MemberTypeNode,
			Selector: topology.MemberSelector{ExactMatch: &topology.ExactMatch{Name: "n"}},
		}}},
	})
	exercise(ctx, "ColocationConfiguration", vc.ConfigV1alpha1().ColocationConfigurations(ns), configurations,
		&colocation.ColocationConfiguration{
			ObjectMeta: meta(ns, "go-colocation"),
			Spec: colocation.ColocationConfigurationSpec{
				Selector:      &metav1.LabelSelector{MatchLabels: map[string]string{"nobody": "has"}},
				Configuration: colocation.Configuration{MemoryQos: &colocation.MemoryQos{HighRatio: 90}},
			},
		})
	exercise(ctx, "NodeShard", vc.ShardV1alpha1().NodeShards(), shards, &shard.NodeShard{
		ObjectMeta: meta("", "go-shard-"+ns), Spec: shard.NodeShardSpec{NodesDesired: []string{"n"}},
	})
}

// life runs a job, scales it by reading and writing it back, suspends and resumes it as vcctl does.
func life(ctx context.Context, ns string, vc versioned.Interface) {
	jobs := vc.BatchV1alpha1().Jobs(ns)
	phase := func(want batch.JobPhase, running int32) error {
		return eventually(ctx, func() bool {
			job, err := jobs.Get(ctx, "life", metav1.GetOptions{})
			return err == nil && job.Status.State.Phase == want && job.Status.Running == running
		})
	}
	made, err := jobs.Create(ctx, &batch.Job{ObjectMeta: meta(ns, "life"), Spec: jobSpec()}, metav1.CreateOptions{})
	report("a job is made", err)
	if err != nil {
		return
	}
	report("a job runs", phase(batch.Running, 2))
	report("a job is scaled by writing it back", retry(ctx, func() error {
		job, err := jobs.Get(ctx, "life", metav1.GetOptions{})
		if err != nil {
			return err
		}
		job.Spec.Tasks[0].Replicas = 3
		_, err = jobs.Update(ctx, job, metav1.UpdateOptions{})
		return err
	}))
	report("a scaled job runs", phase(batch.Running, 3))
	order := func(action bus.Action) error {
		_, err := vc.BusV1alpha1().Commands(ns).Create(ctx, &bus.Command{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "life-", Namespace: ns,
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(made, batch.SchemeGroupVersion.WithKind("Job"))}},
			TargetObject: metav1.NewControllerRef(made, batch.SchemeGroupVersion.WithKind("Job")),
			Action:       string(action),
		}, metav1.CreateOptions{})
		return err
	}
	report("a job is suspended", order(bus.AbortJobAction))
	report("a suspended job has ended its pods", phase(batch.Aborted, 0))
	report("a job is resumed", order(bus.ResumeJobAction))
	report("a resumed job runs", phase(batch.Running, 3))
	report("a status is written by its subresource", retry(ctx, func() error {
		job, err := jobs.Get(ctx, "life", metav1.GetOptions{})
		if err != nil {
			return err
		}
		_, err = jobs.UpdateStatus(ctx, job, metav1.UpdateOptions{})
		return err
	}))
	propagation := metav1.DeletePropagationForeground
	report("a job is deleted", jobs.Delete(ctx, "life", metav1.DeleteOptions{PropagationPolicy: &propagation}))
	report("a deleted job is gone", eventually(ctx, func() bool {
		list, err := jobs.List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=life"})
		return err == nil && len(list.Items) == 0
	}))
}

// operator makes a group and its pods as training operators do: the group first, then pods that name it.
func operator(ctx context.Context, ns string, vc versioned.Interface, kube kubernetes.Interface) {
	groups := vc.SchedulingV1beta1().PodGroups(ns)
	need := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("200m")}
	_, err := groups.Create(ctx, &scheduling.PodGroup{
		ObjectMeta: meta(ns, "train"),
		Spec:       scheduling.PodGroupSpec{MinMember: 2, Queue: "default", MinResources: &need},
	}, metav1.CreateOptions{})
	report("an operator makes a group", err)
	member := func(name string) error {
		_, err := kube.CoreV1().Pods(ns).Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: ns,
				Annotations: map[string]string{scheduling.KubeGroupNameAnnotationKey: "train"}},
			Spec: func() corev1.PodSpec { spec := podSpec(); spec.SchedulerName = "volcano"; return spec }(),
		}, metav1.CreateOptions{})
		return err
	}
	phase := func(want scheduling.PodGroupPhase, running int32) error {
		return eventually(ctx, func() bool {
			group, err := groups.Get(ctx, "train", metav1.GetOptions{})
			return err == nil && group.Status.Phase == want && group.Status.Running == running
		})
	}
	report("a group is admitted before its pods", phase(scheduling.PodGroupInqueue, 0))
	report("an operator makes the first pod", member("train-0"))
	report("one pod of two waits", eventually(ctx, func() bool {
		group, err := groups.Get(ctx, "train", metav1.GetOptions{})
		if err != nil {
			return false
		}
		for _, condition := range group.Status.Conditions {
			if condition.Type == scheduling.PodGroupUnschedulableType && condition.Status == corev1.ConditionTrue {
				return true
			}
		}
		return false
	}))
	report("an operator makes the second pod", member("train-1"))
	report("the whole group runs", phase(scheduling.PodGroupRunning, 2))
	group, err := groups.Get(ctx, "train", metav1.GetOptions{})
	if err == nil {
		group.Annotations = map[string]string{"note": "written back"}
		_, err = groups.Update(ctx, group, metav1.UpdateOptions{})
	}
	report("an operator writes its group back", err)
	_, err = groups.UpdateStatus(ctx, group, metav1.UpdateOptions{})
	report("a group has no status subresource", present(err != nil))
	for _, name := range []string{"train-0", "train-1"} {
		now := int64(0)
		report("an operator deletes "+name, kube.CoreV1().Pods(ns).Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &now}))
	}
	report("an operator deletes its group", groups.Delete(ctx, "train", metav1.DeleteOptions{}))
}

func elect(ctx context.Context, ns string, kube kubernetes.Interface) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	led := make(chan struct{})
	lock := &resourcelock.LeaseLock{
		LeaseMeta:  meta(ns, "go-leader"),
		Client:     kube.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: "goclient"},
	}
	go leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
		Lock: lock, LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: time.Second,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { close(led) }, OnStoppedLeading: func() {},
		},
	})
	select {
	case <-led:
		report("a leader is elected", nil)
	case <-ctx.Done():
		report("a leader is elected", fmt.Errorf("not within %v", patience))
	}
}

func main() {
	ns := os.Args[1]
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		panic(err)
	}
	config.QPS, config.Burst = 200, 200
	vc, kube := versioned.NewForConfigOrDie(config), kubernetes.NewForConfigOrDie(config)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	everyKind(ctx, ns, vc)
	life(ctx, ns, vc)
	operator(ctx, ns, vc, kube)
	elect(ctx, ns, kube)
	if failed {
		os.Exit(1)
	}
}
