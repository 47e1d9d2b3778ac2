package chart_test

import (
	"path"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	chart "github.com/trellis-hub/trellis/charts/trellis"
)

// pod returns what the Deployment makes pods of.
func pod(t *testing.T, objects rendered) corev1.PodTemplateSpec {
	t.Helper()
	return of[appsv1.Deployment](t, objects, "Deployment/trellis").Spec.Template
}

// TestPodMayDoNothing holds more than the restricted standard of pod security asks for, which the end-to-end tests enforce.
func TestPodMayDoNothing(t *testing.T) {
	g := NewWithT(t)
	spec := pod(t, render(t, "")).Spec
	user := ptr.To[int64](65532) // of the image, see hack/image
	g.Expect(spec.SecurityContext).To(Equal(&corev1.PodSecurityContext{
		RunAsNonRoot: ptr.To(true), RunAsUser: user, RunAsGroup: user, FSGroup: user,
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}))
	g.Expect(spec.Containers).To(HaveLen(1))
	g.Expect(spec.Containers[0].SecurityContext).To(Equal(&corev1.SecurityContext{
		AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(true),
		Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}))
	g.Expect(spec.HostNetwork || spec.HostPID || spec.HostIPC).To(BeFalse())
	for _, mount := range spec.Containers[0].VolumeMounts {
		g.Expect(mount.ReadOnly).To(BeTrue(), mount.Name)
	}
}

// TestPodFindsItsFiles follows the paths by which the hub finds its configuration, and client-go the identity.
func TestPodFindsItsFiles(t *testing.T) {
	g := NewWithT(t)
	objects := render(t, "")
	spec := pod(t, objects).Spec
	// volume returns what is at a path, and the rest of the path.
	volume := func(name string) (corev1.Volume, string) {
		for _, mount := range spec.Containers[0].VolumeMounts {
			if rest, ok := strings.CutPrefix(name, mount.MountPath+"/"); ok {
				for _, volume := range spec.Volumes {
					if volume.Name == mount.Name {
						return volume, rest
					}
				}
			}
		}
		t.Fatalf("nothing is at %s", name)
		return corev1.Volume{}, ""
	}

	g.Expect(spec.Containers[0].Args).To(HaveLen(1))
	config, file := volume(strings.TrimPrefix(spec.Containers[0].Args[0], "--config="))
	g.Expect(of[corev1.ConfigMap](t, objects, "ConfigMap/"+config.ConfigMap.Name).Data).To(HaveKey(file))

	g.Expect(spec.ServiceAccountName).To(Equal(chart.ServiceAccount))
	g.Expect(spec.AutomountServiceAccountToken).To(Equal(ptr.To(false)))
	g.Expect(of[corev1.ServiceAccount](t, objects, "ServiceAccount/trellis").AutomountServiceAccountToken).To(Equal(ptr.To(false)))
	const identity = "/var/run/secrets/kubernetes.io/serviceaccount"
	token, _ := volume(path.Join(identity, "token"))
	g.Expect(token.Projected.DefaultMode).To(Equal(ptr.To[int32](0o440)))
	g.Expect(token.Projected.Sources).To(ConsistOf(
		corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: ptr.To[int64](3600)}},
		corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"}, Items: []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
		}},
		corev1.VolumeProjection{DownwardAPI: &corev1.DownwardAPIProjection{
			Items: []corev1.DownwardAPIVolumeFile{{Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.namespace"}}},
		}},
	))
}

func TestPodIsProbed(t *testing.T) {
	g := NewWithT(t)
	spec := pod(t, render(t, "")).Spec
	at := func(probe *corev1.Probe) string { return probe.HTTPGet.Port.String() + probe.HTTPGet.Path }
	g.Expect(at(spec.Containers[0].LivenessProbe)).To(Equal("probes/healthz"))
	g.Expect(at(spec.Containers[0].ReadinessProbe)).To(Equal("probes/readyz"))
	g.Expect(spec.Containers[0].Ports).To(ConsistOf(
		corev1.ContainerPort{Name: "metrics", ContainerPort: 8080}, corev1.ContainerPort{Name: "probes", ContainerPort: 8081},
	))
	g.Expect(*spec.TerminationGracePeriodSeconds).To(BeNumerically(">", 20), "the hub takes as long at most")
}

func TestPodsAreSpread(t *testing.T) {
	g := NewWithT(t)
	var keys []string
	for _, constraint := range pod(t, render(t, "")).Spec.TopologySpreadConstraints {
		keys = append(keys, constraint.TopologyKey)
		g.Expect(constraint.MaxSkew).To(BeEquivalentTo(1))
		g.Expect(constraint.WhenUnsatisfiable).To(Equal(corev1.ScheduleAnyway))
		g.Expect(constraint.MatchLabelKeys).To(ConsistOf(appsv1.DefaultDeploymentUniqueLabelKey), "a new ReplicaSet is spread for itself")
	}
	g.Expect(keys).To(Equal([]string{corev1.LabelTopologyZone, corev1.LabelHostname}))
}

// TestPodsAreReplacedForAnotherConfiguration has the hub get a configuration that it reads only once.
func TestPodsAreReplacedForAnotherConfiguration(t *testing.T) {
	g := NewWithT(t)
	checksum := func(values string) string { return pod(t, render(t, values)).Annotations["checksum/config"] }
	first := checksum("")
	g.Expect(first).NotTo(BeEmpty())
	g.Expect(checksum("{replicas: 3, podLabels: {a: b}}")).To(Equal(first))
	g.Expect(checksum("{config: {logFormat: text}}")).NotTo(Equal(first))
	g.Expect(checksum("{config: {logLevel: debug}}")).
		To(Equal(first), "a running hub takes it over, see cmd/trellis/app/reload.go")
}
