// Command golden writes pairs NAME.pb and NAME.json: one object as Kubernetes' own Go types encode it.
//
// Run in this folder: go run . (writes into data/). The tests read the committed files and need no Go.
package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func to[T any](value T) *T { return &value }

var moment = metav1.NewTime(time.Date(2026, 3, 1, 12, 30, 5, 0, time.UTC))
var micro = metav1.NewMicroTime(time.Date(2026, 3, 1, 12, 30, 5, 123456000, time.UTC))

func named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: "default", Labels: map[string]string{"app": name, "empty": ""}}
}

func template() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "a"}}, Spec: podSpec()}
}

func handler() corev1.ProbeHandler {
	return corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: intstr.FromString("web")}}
}

func podSpec() corev1.PodSpec {
	selector := corev1.LocalObjectReference{Name: "cm"}
	resources := corev1.ResourceRequirements{
		Limits:   corev1.ResourceList{"cpu": resource.MustParse("1500m"), "nvidia.com/gpu": resource.MustParse("8")},
		Requests: corev1.ResourceList{"cpu": resource.MustParse("0"), "memory": resource.MustParse("1.5Gi")},
	}
	return corev1.PodSpec{
		Volumes: []corev1.Volume{
			{Name: "e", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			{Name: "s", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{
				Medium: "Memory", SizeLimit: to(resource.MustParse("64Mi"))}}},
			{Name: "c", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
				LocalObjectReference: selector, DefaultMode: to(int32(0o644)), Optional: to(false)}}},
			{Name: "p", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
				Sources: []corev1.VolumeProjection{
					{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{ExpirationSeconds: to(int64(3607)), Path: "t"}},
					{Secret: &corev1.SecretProjection{LocalObjectReference: selector, Items: []corev1.KeyToPath{{Key: "k", Path: "q"}}}},
				}}}},
		},
		InitContainers: []corev1.Container{{Name: "init", Image: "i", RestartPolicy: to(corev1.ContainerRestartPolicyAlways)}},
		Containers: []corev1.Container{{
			Name: "main", Image: "ghcr.io/größe:1", Command: []string{"sh", "", "-c"}, Args: []string{"true"},
			Ports:   []corev1.ContainerPort{{Name: "web", ContainerPort: 8080, Protocol: "TCP"}},
			EnvFrom: []corev1.EnvFromSource{{Prefix: "P_", ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: selector}}},
			Env: []corev1.EnvVar{
				{Name: "EMPTY"},
				{Name: "FIELD", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
				{Name: "KEY", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
					LocalObjectReference: selector, Key: "k", Optional: to(true)}}},
				{Name: "CPU", ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "limits.cpu"}}},
			},
			Resources:     resources,
			VolumeMounts:  []corev1.VolumeMount{{Name: "e", MountPath: "/e", ReadOnly: true}},
			LivenessProbe: &corev1.Probe{ProbeHandler: handler(), PeriodSeconds: 3},
			Lifecycle:     &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"x"}}}},
			SecurityContext: &corev1.SecurityContext{RunAsUser: to(int64(0)), Privileged: to(false),
				Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
		}},
		EphemeralContainers: []corev1.EphemeralContainer{{
			EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", Image: "d"}, TargetContainerName: "main"}},
		RestartPolicy: "Never", TerminationGracePeriodSeconds: to(int64(0)), NodeSelector: map[string]string{"z": "1"},
		ActiveDeadlineSeconds: to(int64(-1)), HostNetwork: true, SecurityContext: &corev1.PodSecurityContext{},
		ImagePullSecrets: []corev1.LocalObjectReference{{Name: "pull"}},
		Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
				{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "k", Operator: "In", Values: []string{"v"}}}}}},
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 5,
				Preference: corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{{Key: "f", Operator: "Exists"}}}}}}},
		Tolerations:     []corev1.Toleration{{Key: "t", Operator: "Exists", TolerationSeconds: to(int64(300))}},
		SchedulingGates: []corev1.PodSchedulingGate{{Name: "gate"}}, Priority: to(int32(-10)), Overhead: corev1.ResourceList{},
		TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: "DoNotSchedule",
			LabelSelector: &metav1.LabelSelector{}}},
	}
}

func selector() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"},
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "k", Operator: "DoesNotExist"}}}
}

func pod() *corev1.Pod {
	meta := named("full")
	meta.CreationTimestamp, meta.DeletionTimestamp, meta.DeletionGracePeriodSeconds = moment, &moment, to(int64(0))
	meta.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "j", UID: "u", Controller: to(true)}}
	meta.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m", Operation: "Apply", Time: &moment, FieldsType: "FieldsV1",
		FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:metadata":{"f:labels":{".":{}}}}`)}}}
	status := corev1.PodStatus{Phase: "Running", StartTime: &moment,
		Conditions: []corev1.PodCondition{{Type: "Ready", Status: "True", LastTransitionTime: moment}},
		ContainerStatuses: []corev1.ContainerStatus{{Name: "main", Ready: true, RestartCount: 2, Image: "i", ImageID: "x", Started: to(false),
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: moment}}}}}
	return &corev1.Pod{ObjectMeta: meta, Spec: podSpec(), Status: status}
}

func objects() map[string]runtime.Object {
	port := networkingv1.ServiceBackendPort{Number: 80}
	backend := networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "s", Port: port}}
	deviceConfig := resourcev1.DeviceConfiguration{Opaque: &resourcev1.OpaqueDeviceConfiguration{Driver: "d",
		Parameters: runtime.RawExtension{Raw: []byte(`{"apiVersion":"d/v1","n":[1,2.5,null]}`)}}}
	return map[string]runtime.Object{
		"pod":         pod(),
		"pod-minimal": &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "p-"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}}},
		"pod-empty":   &corev1.Pod{},
		"podlist":     &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "7", RemainingItemCount: to(int64(0))}, Items: []corev1.Pod{*pod(), {}}},
		"deployment": &appsv1.Deployment{ObjectMeta: named("d"), Spec: appsv1.DeploymentSpec{Replicas: to(int32(0)), Selector: selector(), Template: template(),
			Strategy: appsv1.DeploymentStrategy{Type: "RollingUpdate", RollingUpdate: &appsv1.RollingUpdateDeployment{
				MaxSurge: to(intstr.FromString("25%")), MaxUnavailable: to(intstr.FromInt32(0))}}}},
		"statefulset": &appsv1.StatefulSet{ObjectMeta: named("s"), Spec: appsv1.StatefulSetSpec{Selector: selector(), Template: template(), ServiceName: "svc",
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{*claim()}}},
		"controllerrevision": &appsv1.ControllerRevision{ObjectMeta: named("r"), Revision: 3, Data: runtime.RawExtension{Raw: []byte(`{"spec":{"a":true}}`)}},
		"job": &batchv1.Job{ObjectMeta: named("j"), Spec: batchv1.JobSpec{Parallelism: to(int32(4)), Completions: to(int32(4)), CompletionMode: to(batchv1.IndexedCompletion),
			Suspend: to(false), TTLSecondsAfterFinished: to(int32(0)), Template: template(),
			PodFailurePolicy: &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{Action: "FailJob",
				OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{Operator: "In", Values: []int32{1, 42, 137}}}}}},
			Status: batchv1.JobStatus{Active: 1, UncountedTerminatedPods: &batchv1.UncountedTerminatedPods{Succeeded: []types.UID{"a"}}}},
		"cronjob": &batchv1.CronJob{ObjectMeta: named("c"), Spec: batchv1.CronJobSpec{Schedule: "*/5 * * * *", TimeZone: to("Etc/UTC"), ConcurrencyPolicy: "Forbid",
			JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: template()}}}, Status: batchv1.CronJobStatus{LastScheduleTime: &moment}},
		"service": &corev1.Service{ObjectMeta: named("s"), Spec: corev1.ServiceSpec{ClusterIP: "None", Selector: map[string]string{"a": "b"}, Ports: []corev1.ServicePort{
			{Name: "a", Port: 80, TargetPort: intstr.FromInt32(8080)}, {Name: "b", Port: 81, TargetPort: intstr.FromString("web"), AppProtocol: to("http")}}}},
		"configmap":  &corev1.ConfigMap{ObjectMeta: named("c"), Data: map[string]string{"a": "b", "empty": ""}, BinaryData: map[string][]byte{"bin": {0, 255, 1}}, Immutable: to(false)},
		"secret":     &corev1.Secret{ObjectMeta: named("s"), Type: "Opaque", Data: map[string][]byte{"p": []byte("q"), "none": {}}},
		"namespace":  &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{"kubernetes"}}},
		"account":    &corev1.ServiceAccount{ObjectMeta: named("sa"), AutomountServiceAccountToken: to(false)},
		"quota":      &corev1.ResourceQuota{ObjectMeta: named("q"), Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"pods": resource.MustParse("5")}}},
		"limitrange": &corev1.LimitRange{ObjectMeta: named("l"), Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{Type: "Container", Max: corev1.ResourceList{"cpu": resource.MustParse("2")}}}}},
		"node": &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Annotations: map[string]string{"a": "b"}}, Spec: corev1.NodeSpec{Unschedulable: true, PodCIDRs: []string{"10.0.0.0/24"},
			Taints: []corev1.Taint{{Key: "k", Effect: "NoSchedule", TimeAdded: &moment}}}, Status: corev1.NodeStatus{
			Capacity:        corev1.ResourceList{"cpu": resource.MustParse("64"), "memory": resource.MustParse("257916Ki")},
			Conditions:      []corev1.NodeCondition{{Type: "Ready", Status: "True", LastHeartbeatTime: moment}},
			DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: 10250}},
			NodeInfo:        corev1.NodeSystemInfo{KubeletVersion: "v1.36.3", Architecture: "amd64"}, Images: []corev1.ContainerImage{{Names: []string{"i"}, SizeBytes: 1 << 40}}}},
		"volume": &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}, Spec: corev1.PersistentVolumeSpec{Capacity: corev1.ResourceList{"storage": resource.MustParse("1Ti")},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: "h", VolumeAttributes: map[string]string{"a": "b"}}}}},
		"claim":   claim(),
		"event":   &corev1.Event{ObjectMeta: named("e"), InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: "p"}, Reason: "R", Message: "m", Count: 1, FirstTimestamp: moment, EventTime: micro, Source: corev1.EventSource{Component: "c"}},
		"eventv1": &eventsv1.Event{ObjectMeta: named("e"), EventTime: micro, Regarding: corev1.ObjectReference{Kind: "Pod"}, Type: "Normal", Series: &eventsv1.EventSeries{Count: 2, LastObservedTime: micro}},
		"binding": &corev1.Binding{ObjectMeta: named("p"), Target: corev1.ObjectReference{Kind: "Node", Name: "n"}},
		"eviction": &policyv1.Eviction{ObjectMeta: named("p"), DeleteOptions: &metav1.DeleteOptions{TypeMeta: metav1.TypeMeta{}, GracePeriodSeconds: to(int64(0)),
			Preconditions: &metav1.Preconditions{UID: to(types.UID("u"))}}},
		"budget":             &policyv1.PodDisruptionBudget{ObjectMeta: named("b"), Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: to(intstr.FromString("50%")), Selector: selector()}, Status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 1, DisruptedPods: map[string]metav1.Time{"p": moment}}},
		"lease":              &coordinationv1.Lease{ObjectMeta: named("l"), Spec: coordinationv1.LeaseSpec{HolderIdentity: to(""), LeaseDurationSeconds: to(int32(40)), RenewTime: &micro}},
		"scale":              &autoscalingv1.Scale{ObjectMeta: named("d"), Spec: autoscalingv1.ScaleSpec{Replicas: 3}, Status: autoscalingv1.ScaleStatus{Replicas: 1, Selector: "a=b"}},
		"autoscaler":         &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: named("h"), Spec: autoscalingv2.HorizontalPodAutoscalerSpec{MaxReplicas: 9, Metrics: []autoscalingv2.MetricSpec{{Type: "Resource", Resource: &autoscalingv2.ResourceMetricSource{Name: "cpu", Target: autoscalingv2.MetricTarget{Type: "Value", Value: to(resource.MustParse("250m"))}}}}}},
		"role":               &rbacv1.Role{ObjectMeta: named("r"), Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{"", "apps"}, Resources: []string{"pods"}}}},
		"clusterrolebinding": &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: "s", Namespace: "n"}}, RoleRef: rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "r"}},
		"ingress": &networkingv1.Ingress{ObjectMeta: named("i"), Spec: networkingv1.IngressSpec{Rules: []networkingv1.IngressRule{{Host: "h", IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
			Paths: []networkingv1.HTTPIngressPath{{Path: "/", PathType: to(networkingv1.PathTypePrefix), Backend: backend}}}}}}}},
		"priorityclass": &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Value: -5, GlobalDefault: true, PreemptionPolicy: to(corev1.PreemptNever)},
		"deviceclass":   &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "d"}, Spec: resourcev1.DeviceClassSpec{Config: []resourcev1.DeviceClassConfiguration{{DeviceConfiguration: deviceConfig}}}},
		"access":        &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Resource: "pods", Namespace: "default"}}},
		"access-user": &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: "u", Groups: []string{"g"}, Extra: map[string]authorizationv1.ExtraValue{"k": {"a", "b"}},
			NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: "/x", Verb: "get"}}},
		"tokenreview":   &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: "t"}, Status: authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{Username: "u"}}},
		"tokenrequest":  &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{"a"}, ExpirationSeconds: to(int64(600))}, Status: authenticationv1.TokenRequestStatus{Token: "t", ExpirationTimestamp: moment}},
		"deleteoptions": &metav1.DeleteOptions{GracePeriodSeconds: to(int64(0)), PropagationPolicy: to(metav1.DeletePropagationBackground), DryRun: []string{"All"}, Preconditions: &metav1.Preconditions{ResourceVersion: to("9")}},
		"crd": &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "xs.e.io"}, Spec: apiextensionsv1.CustomResourceDefinitionSpec{Group: "e.io", Scope: "Namespaced",
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "xs", Kind: "X"}, Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
					"n": {Type: "number", Minimum: to(0.5), MultipleOf: to(-0.25), Default: &apiextensionsv1.JSON{Raw: []byte(`1.5`)}, Enum: []apiextensionsv1.JSON{{Raw: []byte(`1.5`)}, {Raw: []byte(`"x"`)}}},
					"l": {Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &apiextensionsv1.JSONSchemaProps{Type: "string"}}},
					"m": {Type: "object", AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true, Schema: &apiextensionsv1.JSONSchemaProps{Type: "integer"}}},
					"b": {Type: "object", AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true}},
				}}}}}}},
	}
}

func claim() *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: named("c"), Spec: corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{"ReadWriteOnce"},
		StorageClassName: to(""), Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse("10Gi")}}}}
}

func main() {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{appsv1.AddToScheme, authenticationv1.AddToScheme, authorizationv1.AddToScheme, autoscalingv1.AddToScheme,
		autoscalingv2.AddToScheme, batchv1.AddToScheme, coordinationv1.AddToScheme, corev1.AddToScheme, eventsv1.AddToScheme, networkingv1.AddToScheme,
		policyv1.AddToScheme, rbacv1.AddToScheme, resourcev1.AddToScheme, schedulingv1.AddToScheme, apiextensionsv1.AddToScheme} {
		check(add(scheme))
	}
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	serializer := protobuf.NewSerializer(scheme, scheme)
	check(os.MkdirAll("data", 0o755))
	for name, object := range objects() {
		kinds, _, err := scheme.ObjectKinds(object)
		check(err)
		kind := kinds[0]
		if name == "deleteoptions" {
			kind = schema.GroupVersionKind{Version: "v1", Kind: "DeleteOptions"}
		}
		object.GetObjectKind().SetGroupVersionKind(kind)
		var packed bytes.Buffer
		check(serializer.Encode(object, &packed))
		text, err := json.MarshalIndent(object, "", " ")
		check(err)
		check(os.WriteFile(filepath.Join("data", name+".pb"), packed.Bytes(), 0o644))
		check(os.WriteFile(filepath.Join("data", name+".json"), append(text, '\n'), 0o644))
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
