package references_test

import (
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	appsv1beta1 "k8s.io/api/apps/v1beta1"
	appsv1beta2 "k8s.io/api/apps/v1beta2"
	batchv1 "k8s.io/api/batch/v1"
	batchv1beta1 "k8s.io/api/batch/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	. "github.com/trellis-hub/trellis/apis/references"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
)

func TestGC11_KeysOfAnnotations(t *testing.T) {
	for name, want := range map[string]struct{ kind, key string }{
		"name":                               {"kind", "reference.resources.gardener.cloud/kind-82a3537f"},
		"garden-access-extension":            {"secret", "reference.resources.gardener.cloud/secret-795f7ca6"},
		"generic-garden-kubeconfig-81fb3a88": {"secret", "reference.resources.gardener.cloud/secret-d5f5a834"},
		"test-5678":                          {"configmap", "reference.resources.gardener.cloud/configmap-4ed34879"},
	} {
		t.Run("GC-11 the key of "+name, func(t *testing.T) {
			NewWithT(t).Expect(AnnotationKey(want.kind, name)).To(Equal(want.key))
		})
	}
	for key, kind := range map[string]string{
		"reference.resources.gardener.cloud/secret-795f7ca6":    "secret",
		"reference.resources.gardener.cloud/configmap-82a3537f": "configmap",
		"reference.resources.gardener.cloud/kind-82a3537f":      "kind",
		"reference.resources.gardener.cloud/secret-foo":         "secret",
		"foobar/secret/name": "",
		"reference.resources.gardener.cloud/secret/name/foo":   "",
		"reference.resources.gardener.cloud/secret":            "",
		"reference.resources.gardener.cloud/secret-a-b":        "",
		"reference.resources.gardener.cloud/":                  "",
		"x.reference.resources.gardener.cloud/secret-795f7ca6": "",
		"": "",
	} {
		t.Run("GC-11 the kind in "+key, func(t *testing.T) {
			NewWithT(t).Expect(KindFromAnnotationKey(key)).To(Equal(kind))
		})
	}
}

func TestGC12_OtherTypesCannotBeInjected(t *testing.T) {
	for name, obj := range map[string]runtime.Object{
		"a Service":    &corev1.Service{},
		"unstructured": &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Service"}},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(InjectAnnotations(obj)).To(MatchError(ContainSubstring("unhandled object type")))
		})
	}
}

const (
	existing = "some-existing"
	stale    = "reference.resources.gardener.cloud/configmap-82a3537f"
)

func meta() metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: "x", Annotations: map[string]string{existing: "annotation", stale: "name"}}
}

// pod uses one object in each way that there is.
func pod() corev1.PodSpec {
	secretEnv := func(name string) []corev1.EnvVar {
		ref := corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: name}}
		return []corev1.EnvVar{{Name: "plain", Value: "x"}, {ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &ref}}}
	}
	configMapKey := corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "cm-env"}}
	volume := func(source corev1.VolumeSource) corev1.Volume { return corev1.Volume{VolumeSource: source} }
	named := func(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }
	return corev1.PodSpec{
		InitContainers: []corev1.Container{{Env: secretEnv("secret-init")}},
		Containers: []corev1.Container{{
			EnvFrom: []corev1.EnvFromSource{
				{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: named("secret-envfrom")}},
				{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: named("cm-envfrom")}},
			},
			Env: append(secretEnv("secret-env"), corev1.EnvVar{ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &configMapKey}}),
		}},
		EphemeralContainers: []corev1.EphemeralContainer{{
			EphemeralContainerCommon: corev1.EphemeralContainerCommon{Env: secretEnv("secret-ephemeral")},
		}},
		Volumes: []corev1.Volume{
			volume(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}),
			volume(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "secret-volume"}}),
			volume(corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: named("cm-volume")}}),
			volume(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{Secret: &corev1.SecretProjection{LocalObjectReference: named("secret-projected")}},
				{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: named("cm-projected")}},
			}}}),
		},
		ImagePullSecrets: []corev1.LocalObjectReference{named("secret-pull")},
	}
}

func template() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{ObjectMeta: meta(), Spec: pod()}
}

func references(secrets, configMaps []string) map[string]string {
	want := map[string]string{existing: "annotation"}
	for _, name := range secrets {
		want[AnnotationKey(KindSecret, name)] = name
	}
	for _, name := range configMaps {
		want[AnnotationKey(KindConfigMap, name)] = name
	}
	return want
}

// ofPod is what pod uses.
func ofPod() map[string]string {
	return references([]string{
		"secret-init", "secret-envfrom", "secret-env", "secret-ephemeral", "secret-volume", "secret-projected", "secret-pull",
	}, []string{"cm-envfrom", "cm-env", "cm-volume", "cm-projected"})
}

func TestGC13_AnnotationsOfObjectsAndTemplates(t *testing.T) {
	for name, test := range map[string]struct {
		obj    runtime.Object
		places int
	}{
		"Pod": {&corev1.Pod{ObjectMeta: meta(), Spec: pod()}, 1},
		"Deployment v1": {&appsv1.Deployment{
			ObjectMeta: meta(), Spec: appsv1.DeploymentSpec{Template: template()},
		}, 2},
		"StatefulSet v1": {&appsv1.StatefulSet{
			ObjectMeta: meta(), Spec: appsv1.StatefulSetSpec{Template: template()},
		}, 2},
		"DaemonSet v1": {&appsv1.DaemonSet{
			ObjectMeta: meta(), Spec: appsv1.DaemonSetSpec{Template: template()},
		}, 2},
		"Job": {&batchv1.Job{ObjectMeta: meta(), Spec: batchv1.JobSpec{Template: template()}}, 2},
		"Deployment v1beta2": {&appsv1beta2.Deployment{
			ObjectMeta: meta(), Spec: appsv1beta2.DeploymentSpec{Template: template()},
		}, 2},
		"Deployment v1beta1": {&appsv1beta1.Deployment{
			ObjectMeta: meta(), Spec: appsv1beta1.DeploymentSpec{Template: template()},
		}, 2},
		"StatefulSet v1beta2": {&appsv1beta2.StatefulSet{
			ObjectMeta: meta(), Spec: appsv1beta2.StatefulSetSpec{Template: template()},
		}, 2},
		"StatefulSet v1beta1": {&appsv1beta1.StatefulSet{
			ObjectMeta: meta(), Spec: appsv1beta1.StatefulSetSpec{Template: template()},
		}, 2},
		"DaemonSet v1beta2": {&appsv1beta2.DaemonSet{
			ObjectMeta: meta(), Spec: appsv1beta2.DaemonSetSpec{Template: template()},
		}, 2},
		"CronJob v1": {&batchv1.CronJob{ObjectMeta: meta(), Spec: batchv1.CronJobSpec{
			JobTemplate: batchv1.JobTemplateSpec{ObjectMeta: meta(), Spec: batchv1.JobSpec{Template: template()}},
		}}, 3},
		"CronJob v1beta1": {&batchv1beta1.CronJob{ObjectMeta: meta(), Spec: batchv1beta1.CronJobSpec{
			JobTemplate: batchv1beta1.JobTemplateSpec{ObjectMeta: meta(), Spec: batchv1.JobSpec{Template: template()}},
		}}, 3},
	} {
		t.Run("GC-13 GC-14 GC-18 "+name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(InjectAnnotations(test.obj)).To(Succeed())
			content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(test.obj)
			g.Expect(err).NotTo(HaveOccurred())
			found := annotations(content)
			g.Expect(found).To(HaveLen(test.places))
			for _, of := range found {
				g.Expect(of).To(Equal(ofPod()))
			}
		})
	}
}

// annotations are those of an object and of all templates in it.
func annotations(content map[string]any) (found []map[string]string) {
	for key, value := range content {
		if within, is := value.(map[string]any); is && key != "metadata" {
			found = append(found, annotations(within)...)
		}
	}
	of, there, err := unstructured.NestedStringMap(content, "metadata", "annotations")
	if err == nil && there {
		found = append(found, of)
	}
	return found
}

func TestGC14_StaleReferencesAreRemoved(t *testing.T) {
	g := NewWithT(t)
	unused := &corev1.Pod{ObjectMeta: meta()}
	g.Expect(InjectAnnotations(unused)).To(Succeed())
	g.Expect(unused.Annotations).To(Equal(map[string]string{existing: "annotation"}))
}

func TestGC15_AdditionalKeysAreEmpty(t *testing.T) {
	g := NewWithT(t)
	obj := &corev1.Pod{Spec: corev1.PodSpec{ImagePullSecrets: []corev1.LocalObjectReference{{Name: "pull"}}}}
	g.Expect(InjectAnnotations(obj, "foo", "bar", AnnotationKey(KindSecret, "pull"))).To(Succeed())
	g.Expect(obj.Annotations).To(Equal(map[string]string{"foo": "", "bar": "", AnnotationKey(KindSecret, "pull"): "pull"}))
}

func TestGC16_ManagedResourcesReferToTheirSecrets(t *testing.T) {
	g := NewWithT(t)
	mr := &resourcesv1alpha1.ManagedResource{
		ObjectMeta: meta(),
		Spec: resourcesv1alpha1.ManagedResourceSpec{
			SecretRefs: []corev1.LocalObjectReference{{Name: "a"}, {Name: "b"}},
		},
	}
	g.Expect(InjectAnnotations(mr)).To(Succeed())
	g.Expect(mr.Annotations).To(Equal(references([]string{"a", "b"}, nil)))
}

func TestGC17_Prometheus(t *testing.T) {
	g := NewWithT(t)
	spec := pod()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&struct {
		Containers []corev1.Container `json:"containers"`
		Volumes    []corev1.Volume    `json:"volumes"`
	}{spec.Containers, spec.Volumes})
	g.Expect(err).NotTo(HaveOccurred())
	content["remoteWrite"] = []any{
		map[string]any{"url": "https://a"},
		map[string]any{"url": "https://b", "basicAuth": map[string]any{
			"username": map[string]any{"name": "user", "key": "u"}, "password": map[string]any{"name": "password", "key": "p"},
		}},
	}
	obj := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "monitoring.coreos.com/v1", "kind": "Prometheus", "spec": content,
	}}
	obj.SetAnnotations(meta().Annotations)
	g.Expect(InjectAnnotations(obj)).To(Succeed())
	g.Expect(obj.GetAnnotations()).To(Equal(references(
		[]string{"secret-envfrom", "secret-env", "secret-volume", "secret-projected", "user", "password"},
		[]string{"cm-envfrom", "cm-env", "cm-volume", "cm-projected"},
	)))

	obj.Object["spec"] = map[string]any{"containers": "none"}
	g.Expect(InjectAnnotations(obj)).To(MatchError(ContainSubstring("reading Prometheus")))
}

func TestGC18_PullSecretsAreReferences(t *testing.T) {
	g := NewWithT(t)
	obj := &corev1.Pod{Spec: corev1.PodSpec{ImagePullSecrets: []corev1.LocalObjectReference{{Name: "pull"}, {}}}}
	g.Expect(InjectAnnotations(obj)).To(Succeed())
	g.Expect(obj.Annotations).To(Equal(map[string]string{AnnotationKey(KindSecret, "pull"): "pull"}))
}

func TestGC23_UniqueNames(t *testing.T) {
	secret := func(name, value string) *corev1.Secret {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			StringData: map[string]string{"a": "overlaid", "b": value}, Data: map[string][]byte{"a": []byte("1")},
		}
	}
	configMap := func(name, value string) *corev1.ConfigMap {
		return &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Data:       map[string]string{"a": "overlaid", "b": value}, BinaryData: map[string][]byte{"a": []byte("1")},
		}
	}
	// The checksum of the values 1 and 2, computed by sha256sum.
	const checksum = "33b675636da5dcc8"

	t.Run("GC-23 the same values make the same name", func(t *testing.T) {
		g := NewWithT(t)
		s, cm := secret("x", "2"), configMap("x", "2")
		g.Expect(MakeUnique(s)).To(Succeed())
		g.Expect(MakeUnique(cm)).To(Succeed())
		g.Expect(s.Name).To(Equal("x-" + checksum[:8]))
		g.Expect(cm.Name).To(Equal(s.Name))
		g.Expect(s.Immutable).To(Equal(ptr.To(true)))
		g.Expect(cm.Immutable).To(Equal(ptr.To(true)))
		label := HaveKeyWithValue("resources.gardener.cloud/garbage-collectable-reference", "true")
		g.Expect(s.Labels).To(label)
		g.Expect(cm.Labels).To(label)
	})
	t.Run("GC-23 another value makes another name", func(t *testing.T) {
		g := NewWithT(t)
		s, cm := secret("x", "3"), configMap("x", "3")
		g.Expect(MakeUnique(s)).To(Succeed())
		g.Expect(MakeUnique(cm)).To(Succeed())
		g.Expect(s.Name).To(And(HavePrefix("x-"), Not(Equal("x-"+checksum[:8]))))
		g.Expect(cm.Name).To(Equal(s.Name))
	})
	t.Run("GC-23 keys only order the values", func(t *testing.T) {
		g := NewWithT(t)
		s := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: "x"}, Data: map[string][]byte{"p": []byte("1"), "q": []byte("2")},
		}
		g.Expect(MakeUnique(s)).To(Succeed())
		g.Expect(s.Name).To(Equal("x-" + checksum[:8]))
	})
	t.Run("GC-23 there is no second hyphen", func(t *testing.T) {
		g := NewWithT(t)
		s := secret("x-", "2")
		g.Expect(MakeUnique(s)).To(Succeed())
		g.Expect(s.Name).To(Equal("x-" + checksum[:8]))
	})
	t.Run("GC-23 other types are an error", func(t *testing.T) {
		NewWithT(t).Expect(MakeUnique(&corev1.Pod{})).To(MatchError(ContainSubstring("only ConfigMaps and Secrets")))
	})
}
