package shoot20

import (
	"fmt"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// workload is the component's workload of the same suffix, or its first.
func (m maker) workload() autoscalingv1.CrossVersionObjectReference {
	var out autoscalingv1.CrossVersionObjectReference
	for _, object := range strings.Fields(m.objects) {
		kind, suffix, _ := strings.Cut(object, ":")
		known, ok := map[string]string{"deployment": "Deployment", "daemonset": "DaemonSet", "statefulset": "StatefulSet"}[kind]
		if ok && (out.Name == "" || suffix == m.suffix) {
			out = autoscalingv1.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: known, Name: m.named(suffix)}
		}
	}
	return out
}

// template has one container, or two, with all that the pods of a system component come with.
func (m maker) template() corev1.PodTemplateSpec {
	labels := m.labels()
	for key, value := range m.selector().MatchLabels {
		labels[key] = value
	}
	spec := corev1.PodSpec{
		ServiceAccountName: m.account(), PriorityClassName: "system-cluster-critical", DNSPolicy: corev1.DNSDefault,
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To(int64(65532)), FSGroup: ptr.To(int64(65532)),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		NodeSelector: map[string]string{"worker.gardener.cloud/system-components": "true"},
		Tolerations:  []corev1.Toleration{{Key: "CriticalAddonsOnly", Operator: corev1.TolerationOpExists}, {Effect: corev1.TaintEffectNoExecute, Operator: corev1.TolerationOpExists}},
		Affinity: &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{
				Weight: 100, PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: "kubernetes.io/hostname", LabelSelector: m.selector()},
			}},
		}},
		TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: "topology.kubernetes.io/zone", WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: m.selector(),
		}},
		Containers: []corev1.Container{m.container(m.app(), "server", "metrics")},
		Volumes: []corev1.Volume{
			{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: m.app()}}}},
			{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		},
	}
	if m.IntN(2) == 0 {
		spec.Containers = append(spec.Containers, m.container("sidecar", "sidecar", "side-metrics"))
	}
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{
			"checksum/configmap-" + m.app(): fmt.Sprintf("%064x", m.Uint64()), "cluster-autoscaler.kubernetes.io/safe-to-evict": "true",
		}},
		Spec: spec,
	}
}

func (m maker) container(name, port, metrics string) corev1.Container {
	at := int32(8000 + m.IntN(1000))
	c := corev1.Container{
		Name: name, Image: fmt.Sprintf("registry.example.com/gardener/%s:v%d.%d.%d", name, m.IntN(3), m.IntN(40), m.IntN(10)), ImagePullPolicy: corev1.PullIfNotPresent,
		Command: []string{"/" + name},
		Env: []corev1.EnvVar{
			{Name: "GOMAXPROCS", Value: "2"},
			{Name: "NODE_NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "spec.nodeName"}}},
		},
		Ports: []corev1.ContainerPort{
			{Name: port, ContainerPort: at, Protocol: corev1.ProtocolTCP},
			{Name: metrics, ContainerPort: at + 1000, Protocol: corev1.ProtocolTCP},
		},
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("20m"), corev1.ResourceMemory: resource.MustParse(fmt.Sprintf("%dMi", 16+m.IntN(100)))},
			Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(fmt.Sprintf("%dMi", 200+m.IntN(800)))},
		},
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(true), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
		LivenessProbe: &corev1.Probe{
			ProbeHandler:        corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromString(port), Scheme: corev1.URISchemeHTTPS}},
			InitialDelaySeconds: 15, PeriodSeconds: 10, TimeoutSeconds: 5, FailureThreshold: 3, SuccessThreshold: 1,
		},
		ReadinessProbe: &corev1.Probe{
			ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/readyz", Port: intstr.FromString(port), Scheme: corev1.URISchemeHTTPS}},
			PeriodSeconds: 10, TimeoutSeconds: 5, FailureThreshold: 3, SuccessThreshold: 1,
		},
		VolumeMounts: []corev1.VolumeMount{{Name: "config", MountPath: "/etc/" + name, ReadOnly: true}, {Name: "tmp", MountPath: "/tmp"}},
	}
	used := map[string]bool{}
	for range 4 + m.IntN(8) {
		if flag := m.pick(nouns) + "-" + m.term("-"); !used[flag] {
			used[flag] = true
			c.Args = append(c.Args, fmt.Sprintf("--%s=%d", flag, m.IntN(10000)))
		}
	}
	return c
}
