package ensure_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/trellis-hub/trellis/webhooks/controlplane/ensure"
	"github.com/trellis-hub/trellis/webhooks/controlplane/systemd"
	"github.com/trellis-hub/trellis/webhooks/extensions"
)

// list is a case: a function applied to a list, and what it makes of it.
type list[T any] struct {
	name       string
	from, want []T
	apply      func([]T) []T
}

// check applies it twice. The list that it was given stays as it is.
func check[T any](t *testing.T, tests []list[T]) {
	t.Helper()
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			given := append([]T(nil), test.from...)
			once := test.apply(given)
			g.Expect(once).To(BeEquivalentTo(test.want))
			g.Expect(test.apply(once)).To(BeEquivalentTo(test.want))
			g.Expect(given).To(BeEquivalentTo(append([]T(nil), test.from...)))
		})
	}
}

func TestCPW20_Flags(t *testing.T) {
	flag := func(args []string) []string { return ensure.Flag(args, "--a=", "1") }
	in := func(args []string) []string { return ensure.InFlag(args, "--l=", "x", ",") }
	notIn := func(args []string) []string { return ensure.NotInFlag(args, "--l=", "x", ",") }
	check(t, []list[string]{
		{"a flag is added", []string{"c", "--b=2"}, []string{"c", "--b=2", "--a=1"}, flag},
		{"a flag is added to none", nil, []string{"--a=1"}, flag},
		{"a flag is rewritten", []string{"c", "--a=0", "--b=2"}, []string{"c", "--a=1", "--b=2"}, flag},
		{"all of its kind are", []string{"--a=0", "--a=2"}, []string{"--a=1", "--a=1"}, flag},
		{"a flag goes", []string{"c", "--a=0", "--b=2", "--a="}, []string{"c", "--b=2"},
			func(args []string) []string { return ensure.NoFlag(args, "--a=") }},
		{"a value comes into a list", []string{"--l=a,b"}, []string{"--l=a,b,x"}, in},
		{"a value comes into an empty list", []string{"--l="}, []string{"--l=x"}, in},
		{"a value comes with its list", []string{"c"}, []string{"c", "--l=x"}, in},
		{"a value is there", []string{"--l=x,a"}, []string{"--l=x,a"}, in},
		{"a value that begins like it is another one", []string{"--l=xx"}, []string{"--l=xx,x"}, in},
		{"a value goes", []string{"--l=a,x,b"}, []string{"--l=a,b"}, notIn},
		{"the last value goes", []string{"--l=x"}, []string{"--l="}, notIn},
		{"no list", []string{"c"}, []string{"c"}, notIn},
	})
}

func TestCPW20_NamedThings(t *testing.T) {
	check(t, []list[corev1.EnvVar]{
		{"a variable is added", []corev1.EnvVar{{Name: "a"}}, []corev1.EnvVar{{Name: "a"}, {Name: "b", Value: "1"}},
			func(l []corev1.EnvVar) []corev1.EnvVar { return ensure.Env(l, corev1.EnvVar{Name: "b", Value: "1"}) }},
		{"a variable is replaced", []corev1.EnvVar{{Name: "b"}, {Name: "a"}},
			[]corev1.EnvVar{{Name: "b", Value: "1"}, {Name: "a"}},
			func(l []corev1.EnvVar) []corev1.EnvVar { return ensure.Env(l, corev1.EnvVar{Name: "b", Value: "1"}) }},
		{"a variable goes", []corev1.EnvVar{{Name: "b"}, {Name: "a"}}, []corev1.EnvVar{{Name: "a"}},
			func(l []corev1.EnvVar) []corev1.EnvVar { return ensure.NoEnv(l, "b") }},
	})
	check(t, []list[corev1.VolumeMount]{
		{"a mount is replaced", []corev1.VolumeMount{{Name: "a"}}, []corev1.VolumeMount{{Name: "a", MountPath: "/a"}},
			func(l []corev1.VolumeMount) []corev1.VolumeMount {
				return ensure.VolumeMount(l, corev1.VolumeMount{Name: "a", MountPath: "/a"})
			}},
		{"a mount goes", []corev1.VolumeMount{{Name: "a"}}, []corev1.VolumeMount{},
			func(l []corev1.VolumeMount) []corev1.VolumeMount { return ensure.NoVolumeMount(l, "a") }},
	})
	check(t, []list[corev1.Volume]{
		{"a volume is added", nil, []corev1.Volume{{Name: "a"}},
			func(l []corev1.Volume) []corev1.Volume { return ensure.Volume(l, corev1.Volume{Name: "a"}) }},
		{"a volume goes", []corev1.Volume{{Name: "a"}, {Name: "b"}}, []corev1.Volume{{Name: "b"}},
			func(l []corev1.Volume) []corev1.Volume { return ensure.NoVolume(l, "a") }},
	})
	check(t, []list[corev1.Container]{
		{"a container is replaced", []corev1.Container{{Name: "a"}}, []corev1.Container{{Name: "a", Image: "i"}},
			func(l []corev1.Container) []corev1.Container {
				return ensure.Container(l, corev1.Container{Name: "a", Image: "i"})
			}},
		{"a container goes", []corev1.Container{{Name: "a"}, {Name: "b"}}, []corev1.Container{{Name: "b"}},
			func(l []corev1.Container) []corev1.Container { return ensure.NoContainer(l, "a") }},
	})
	claim := corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	check(t, []list[corev1.PersistentVolumeClaim]{
		{"a claim is added", nil, []corev1.PersistentVolumeClaim{claim},
			func(l []corev1.PersistentVolumeClaim) []corev1.PersistentVolumeClaim {
				return ensure.VolumeClaim(l, claim)
			}},
		{"a claim goes", []corev1.PersistentVolumeClaim{claim}, []corev1.PersistentVolumeClaim{},
			func(l []corev1.PersistentVolumeClaim) []corev1.PersistentVolumeClaim {
				return ensure.NoVolumeClaim(l, "a")
			}},
	})
	check(t, []list[extensions.Unit]{
		{"a unit is added", nil, []extensions.Unit{{Name: "a"}},
			func(l []extensions.Unit) []extensions.Unit { return ensure.Unit(l, extensions.Unit{Name: "a"}) }},
		{"a unit goes", []extensions.Unit{{Name: "a"}}, []extensions.Unit{},
			func(l []extensions.Unit) []extensions.Unit { return ensure.NoUnit(l, "a") }},
	})
	check(t, []list[extensions.File]{
		{"a file is found by its path", []extensions.File{{Path: "/a"}},
			[]extensions.File{{Path: "/a",
				Content: extensions.FileContent{ImageRef: &extensions.FileContentImageRef{}}}},
			func(l []extensions.File) []extensions.File {
				return ensure.File(l, extensions.File{
					Path: "/a", Content: extensions.FileContent{ImageRef: &extensions.FileContentImageRef{}},
				})
			}},
		{"a file goes", []extensions.File{{Path: "/a"}, {Path: "/b"}}, []extensions.File{{Path: "/b"}},
			func(l []extensions.File) []extensions.File { return ensure.NoFile(l, "/a") }},
	})
}

func TestCPW20_Units(t *testing.T) {
	start := systemd.Option{Section: "Service", Name: "ExecStart", Value: "/opt/bin/kubelet \\\n    --config=x --v=2"}
	pre := systemd.Option{Section: "Service", Name: "ExecStartPre", Value: "/bin/true"}
	changed := start
	changed.Value = "/opt/bin/kubelet \\\n    --config=x \\\n    --v=2 \\\n    --cloud-provider=external"
	check(t, []list[systemd.Option]{
		{"an option is added", []systemd.Option{start}, []systemd.Option{start, pre},
			func(l []systemd.Option) []systemd.Option { return ensure.Option(l, pre) }},
		{"an option goes", []systemd.Option{start, pre}, []systemd.Option{start},
			func(l []systemd.Option) []systemd.Option { return ensure.NoOption(l, pre) }},
		{"a flag of the command line", []systemd.Option{pre, start}, []systemd.Option{pre, changed},
			func(l []systemd.Option) []systemd.Option {
				return ensure.CommandLine(l, func(words []string) []string {
					return ensure.Flag(words, "--cloud-provider=", "external")
				})
			}},
		{"a flag that is there", []systemd.Option{start}, []systemd.Option{start},
			func(l []systemd.Option) []systemd.Option {
				return ensure.CommandLine(l, func(words []string) []string { return ensure.Flag(words, "--v=", "2") })
			}},
		{"no command line", []systemd.Option{pre}, []systemd.Option{pre},
			func(l []systemd.Option) []systemd.Option {
				return ensure.CommandLine(l, func(words []string) []string { return ensure.Flag(words, "--v=", "2") })
			}},
	})
}

func TestLines(t *testing.T) {
	g := NewWithT(t)
	words := ensure.Words("a  b \\\n\tc\\d")
	g.Expect(words).To(Equal([]string{"a", "b", "c", "d"}))
	for leading, want := range map[int]string{-1: "a-b-c-d", 0: "a-b-c-d", 1: "a-b-c-d", 2: "a b-c-d", 4: "a b c d",
		9: "a b c d"} {
		g.Expect(ensure.Line(words, leading, "-")).To(Equal(want), "%d", leading)
	}
	g.Expect(ensure.Line(nil, 1, "-")).To(BeEmpty())
}

func TestSettings(t *testing.T) {
	g := NewWithT(t)
	configuration := map[string]any{"maxPods": int64(110)}
	for range 2 {
		g.Expect(ensure.FeatureGate(configuration, "CSIMigration", true)).To(Succeed())
		g.Expect(ensure.Setting(configuration, true, "enableControllerAttachDetach")).To(Succeed())
		ensure.NoSetting(configuration, "volumePluginDir")
	}
	g.Expect(configuration).To(Equal(map[string]any{
		"maxPods": int64(110), "featureGates": map[string]any{"CSIMigration": true},
		"enableControllerAttachDetach": true,
	}))
	g.Expect(ensure.Setting(configuration, true, "maxPods", "x")).NotTo(Succeed())
}

func TestChecksums(t *testing.T) {
	g := NewWithT(t)
	key := client.ObjectKey{Namespace: "n", Name: "cloudprovider"}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "cloudprovider"}}
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "cloudprovider"}}
	sums := func(value string) map[string]string {
		secret.Data, config.Data = map[string][]byte{"k": []byte(value), "a": nil}, map[string]string{"k": value}
		reader := fake.NewClientBuilder().WithObjects(secret.DeepCopy(), config.DeepCopy()).Build()
		template := &corev1.PodTemplateSpec{}
		g.Expect(ensure.Secret(t.Context(), reader, template, key)).To(Succeed())
		g.Expect(ensure.ConfigMap(t.Context(), reader, template, key)).To(Succeed())
		return template.Annotations
	}
	first := sums("1")
	g.Expect(first).To(And(HaveLen(2), HaveKey("checksum/secret-cloudprovider"),
		HaveKey("checksum/configmap-cloudprovider")))
	g.Expect(sums("1")).To(Equal(first))
	other := sums("2")
	for key := range first {
		g.Expect(other[key]).NotTo(Equal(first[key]))
	}
	empty := fake.NewClientBuilder().Build()
	g.Expect(ensure.Secret(t.Context(), empty, &corev1.PodTemplateSpec{}, key)).NotTo(Succeed())
	g.Expect(ensure.ConfigMap(t.Context(), empty, &corev1.PodTemplateSpec{}, key)).NotTo(Succeed())
}
