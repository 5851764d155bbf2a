// Command operator keeps a Deployment and a ConfigMap for each Site of its namespace by server-side apply, the way
// controller-runtime's documentation writes operators, and looks at the cluster as client-go's informers do.
// Each line "ok …" is something that works; the first that does not ends the program with its error.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	appsapply "k8s.io/client-go/applyconfigurations/apps/v1"
	coreapply "k8s.io/client-go/applyconfigurations/core/v1"
	metaapply "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	rtcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const (
	owner     = "site-operator"
	finalizer = "strato.test/site"
)

var siteKind = schema.GroupVersionKind{Group: "strato.test", Version: "v1", Kind: "Site"}

func site(namespace string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(siteKind)
	object.SetNamespace(namespace)
	object.SetName("blog")
	return object
}

type reconciler struct {
	client.Client
}

func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	current := &unstructured.Unstructured{}
	current.SetGroupVersionKind(siteKind)
	if err := r.Get(ctx, request.NamespacedName, current); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !current.GetDeletionTimestamp().IsZero() {
		controllerutil.RemoveFinalizer(current, finalizer)
		return ctrl.Result{}, r.Update(ctx, current)
	}
	if controllerutil.AddFinalizer(current, finalizer) {
		return ctrl.Result{}, r.Update(ctx, current)
	}
	text, _, _ := unstructured.NestedString(current.Object, "spec", "text")
	replicas, _, _ := unstructured.NestedInt64(current.Object, "spec", "replicas")
	reference := metaapply.OwnerReference().WithAPIVersion("strato.test/v1").WithKind("Site").
		WithName(current.GetName()).WithUID(current.GetUID()).WithController(true).WithBlockOwnerDeletion(true)
	config := coreapply.ConfigMap(request.Name, request.Namespace).WithData(map[string]string{"text": text}).
		WithOwnerReferences(reference)
	if err := r.Apply(ctx, config, client.FieldOwner(owner), client.ForceOwnership); err != nil {
		return ctrl.Result{}, err
	}
	labels := map[string]string{"site": request.Name}
	container := coreapply.Container().WithName("main").WithImage("strato/host").WithCommand("sleep", "3600").
		WithEnv(coreapply.EnvVar().WithName("TEXT").WithValue(text))
	template := coreapply.PodTemplateSpec().WithLabels(labels).
		WithSpec(coreapply.PodSpec().WithTerminationGracePeriodSeconds(1).WithContainers(container))
	deployment := appsapply.Deployment(request.Name, request.Namespace).WithOwnerReferences(reference).
		WithSpec(appsapply.DeploymentSpec().WithReplicas(int32(replicas)).
			WithSelector(metaapply.LabelSelector().WithMatchLabels(labels)).WithTemplate(template))
	if err := r.Apply(ctx, deployment, client.FieldOwner(owner), client.ForceOwnership); err != nil {
		return ctrl.Result{}, err
	}
	seen := &appsv1.Deployment{}
	if err := r.Get(ctx, request.NamespacedName, seen); err != nil {
		return ctrl.Result{RequeueAfter: 100 * time.Millisecond}, client.IgnoreNotFound(err)
	}
	status := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"ready": int64(seen.Status.ReadyReplicas)}}}
	status.SetGroupVersionKind(siteKind)
	status.SetName(request.Name)
	status.SetNamespace(request.Namespace)
	return ctrl.Result{}, r.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(status), client.FieldOwner(owner))
}

func check(err error, what string) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", what, err)
		os.Exit(1)
	}
	fmt.Println("ok", what)
}

func until(ctx context.Context, what string, probe func(context.Context) (bool, error)) {
	check(wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 4*time.Minute, true, probe), what)
}

// asked counts the requests of informers by what they ask for.
type asked struct {
	streamed, protobuf, answered, watched atomic.Int64
}

func (a *asked) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		if strings.Contains(request.URL.RawQuery, "sendInitialEvents=true") {
			a.streamed.Add(1)
		}
		if request.Method == http.MethodPost && request.Header.Get("Content-Type") == "application/vnd.kubernetes.protobuf" {
			a.protobuf.Add(1)
		}
		answer, err := next.RoundTrip(request)
		if err == nil {
			switch answer.Header.Get("Content-Type") {
			case "application/vnd.kubernetes.protobuf":
				a.answered.Add(1)
			case "application/vnd.kubernetes.protobuf;stream=watch":
				a.watched.Add(1)
			default:
				err = fmt.Errorf("%s %s was answered as %s", request.Method, request.URL, answer.Header.Get("Content-Type"))
			}
		}
		return answer, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

func operate(ctx context.Context, config *rest.Config, namespace string) client.Client {
	scheme := runtime.NewScheme()
	check(clientscheme.AddToScheme(scheme), "the types are known")
	mgr, err := manager.New(config, manager.Options{
		Scheme:                  scheme,
		Cache:                   rtcache.Options{DefaultNamespaces: map[string]rtcache.Config{namespace: {}}},
		Metrics:                 metricsserver.Options{BindAddress: "0"},
		LeaderElection:          true,
		LeaderElectionID:        owner,
		LeaderElectionNamespace: namespace,
	})
	check(err, "the manager finds the kinds")
	watched := &unstructured.Unstructured{}
	watched.SetGroupVersionKind(siteKind)
	check(ctrl.NewControllerManagedBy(mgr).For(watched).Owns(&appsv1.Deployment{}).Owns(&corev1.ConfigMap{}).
		Complete(&reconciler{mgr.GetClient()}), "the controller is set up")
	go func() {
		if err := mgr.Start(ctx); err != nil {
			check(err, "the manager runs")
		}
	}()
	<-mgr.Elected()
	fmt.Println("ok the manager is elected")
	return mgr.GetClient()
}

func informs(ctx context.Context, config *rest.Config, namespace string) {
	count := &asked{}
	wrapped := rest.CopyConfig(config)
	wrapped.ContentType = "application/vnd.kubernetes.protobuf"
	wrapped.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	wrapped.Wrap(count.wrap)
	clients := kubernetes.NewForConfigOrDie(wrapped)
	factory := informers.NewSharedInformerFactoryWithOptions(clients, 0, informers.WithNamespace(namespace))
	pods, maps := factory.Core().V1().Pods(), factory.Core().V1().ConfigMaps()
	var added, updated, deleted atomic.Int64
	_, err := maps.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { added.Add(1) },
		UpdateFunc: func(any, any) { updated.Add(1) },
		DeleteFunc: func(any) { deleted.Add(1) },
	})
	check(err, "a handler is added")
	pods.Informer()
	factory.Start(ctx.Done())
	for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			check(fmt.Errorf("%v", kind), "informers are in sync")
		}
	}
	before := added.Load()
	made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "made"}, BinaryData: map[string][]byte{"b": {0, 255}}}
	_, err = clients.CoreV1().ConfigMaps(namespace).Create(ctx, made, metav1.CreateOptions{})
	check(err, "an object is created in protobuf")
	until(ctx, "an informer sees what is added", func(context.Context) (bool, error) { return added.Load() > before, nil })
	patch, _ := json.Marshal(map[string]any{"data": map[string]string{"a": "1"}})
	_, err = clients.CoreV1().ConfigMaps(namespace).Patch(ctx, "made", types.MergePatchType, patch, metav1.PatchOptions{})
	check(err, "an object is patched")
	until(ctx, "an informer sees what changes", func(context.Context) (bool, error) {
		seen, err := maps.Lister().ConfigMaps(namespace).Get("made")
		return err == nil && updated.Load() > 0 && seen.Data["a"] == "1" && seen.BinaryData["b"][1] == 255, nil
	})
	check(clients.CoreV1().ConfigMaps(namespace).Delete(ctx, "made", metav1.DeleteOptions{}), "an object is deleted")
	until(ctx, "an informer sees what is deleted", func(context.Context) (bool, error) { return deleted.Load() > 0, nil })
	if count.streamed.Load() == 0 {
		check(fmt.Errorf("no request asked for it"), "lists come as watches")
	}
	fmt.Println("ok lists come as watches")
	if count.protobuf.Load() == 0 {
		check(fmt.Errorf("all was sent as JSON"), "objects are sent as protobuf")
	}
	fmt.Println("ok objects are sent as protobuf")
	if count.answered.Load() < 3 || count.watched.Load() < 2 {
		check(fmt.Errorf("%d answers, %d watches", count.answered.Load(), count.watched.Load()), "answers are protobuf")
	}
	fmt.Println("ok answers are protobuf")
}

func main() {
	namespace := os.Args[1]
	log.SetLogger(zap.New(zap.UseDevMode(true)))
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	config := ctrl.GetConfigOrDie()
	informs(ctx, config, namespace)
	sites := operate(ctx, config, namespace)

	made := site(namespace)
	made.Object["spec"] = map[string]any{"text": "first", "replicas": int64(2)}
	check(sites.Create(ctx, made), "a custom object is created")
	ready := func(count int64, text string) func(context.Context) (bool, error) {
		return func(ctx context.Context) (bool, error) {
			current, config := site(namespace), &corev1.ConfigMap{}
			key := client.ObjectKeyFromObject(current)
			if sites.Get(ctx, key, current) != nil || sites.Get(ctx, key, config) != nil {
				return false, nil
			}
			seen, _, _ := unstructured.NestedInt64(current.Object, "status", "ready")
			return seen == count && config.Data["text"] == text, nil
		}
	}
	until(ctx, "the operator brings what it owns about", ready(2, "first"))

	deployment := &appsv1.Deployment{}
	key := client.ObjectKey{Namespace: namespace, Name: "blog"}
	check(sites.Get(ctx, key, deployment), "the cache has the deployment")
	patch := client.MergeFrom(deployment.DeepCopy())
	deployment.Annotations = map[string]string{"others": "stay"}
	check(sites.Patch(ctx, deployment, patch, client.FieldOwner("someone")), "someone else owns an annotation")
	check(sites.Patch(ctx, made, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"text":"second","replicas":1}}`))), "a custom object is patched")
	until(ctx, "the operator follows", ready(1, "second"))
	check(sites.Get(ctx, key, deployment), "the deployment is there")
	if deployment.Annotations["others"] != "stay" {
		check(fmt.Errorf("%v", deployment.Annotations), "an apply leaves others' fields")
	}
	fmt.Println("ok an apply leaves others' fields")
	for _, entry := range deployment.ManagedFields {
		if entry.Manager == owner && entry.Operation == metav1.ManagedFieldsOperationApply {
			fmt.Println("ok the operator owns what it applied")
		}
	}

	check(sites.Delete(ctx, made), "a custom object is deleted")
	until(ctx, "what it owned goes with it", func(ctx context.Context) (bool, error) {
		return client.IgnoreNotFound(sites.Get(ctx, key, deployment)) == nil && sites.Get(ctx, key, deployment) != nil, nil
	})
}
