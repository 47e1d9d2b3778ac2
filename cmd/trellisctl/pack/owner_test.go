package pack_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/cmd/trellisctl/app"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// patience is how long the garbage collector may take.
const patience = 5 * time.Minute

func TestSecretsGoWithTheirManagedResource(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	g := NewWithT(t)
	source, err := testbed.StartCluster(t.Context(), controlplane.Options{Name: "source", ControllerManager: true})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(source.Stop)
	g.Expect(testbed.InstallSource(t.Context(), source.Client)).To(Succeed())
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	g.Expect(os.WriteFile(kubeconfig, source.Kubeconfig(), 0o600)).To(Succeed())
	ns := "shoot--foo--a"
	g.Expect(source.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})).To(Succeed())

	run := func(content, name string, args ...string) (code int, said string) {
		streams, in, _, errOut := genericiooptions.NewTestIOStreams()
		in.WriteString(content)
		line := append([]string{"--kubeconfig", kubeconfig, "-n", ns, "pack", "-f", "-", "--name", name, "--apply"}, args...)
		return app.Run(t.Context(), cli.NewEnv(streams), app.Name, line), errOut.String()
	}
	pack := func(content string, args ...string) {
		t.Helper()
		code, said := run(content, "addons", args...)
		g.Expect(code).To(Equal(cli.ExitOK), said)
	}
	managed := func() *resourcesv1alpha1.ManagedResource {
		mr := &resourcesv1alpha1.ManagedResource{}
		g.Expect(source.Client.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "addons"}, mr)).To(Succeed())
		return mr
	}
	packed := func() []corev1.Secret {
		list := &corev1.SecretList{}
		g.Expect(source.Client.List(t.Context(), list, client.InNamespace(ns), client.HasLabels{"trellisctl.hub.gardener.cloud/packed-for"})).To(Succeed())
		return list.Items
	}
	owned := func(by *resourcesv1alpha1.ManagedResource) any {
		return HaveField("OwnerReferences", ConsistOf(And(HaveField("Kind", "ManagedResource"), HaveField("Name", "addons"), HaveField("UID", by.UID),
			HaveField("Controller", BeNil()), HaveField("BlockOwnerDeletion", BeNil()))))
	}
	const one, two = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\n", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: two}\n"

	pack(one)
	first := managed()
	before := packed()
	g.Expect(before).To(ConsistOf(owned(first)))
	pack(one)
	g.Expect(packed()).To(Equal(before), "nothing changed, nothing written")

	// Secrets of former content are its own, too.
	pack(one, "--immutable")
	pack(two, "--immutable")
	g.Expect(packed()).To(And(HaveLen(3), HaveEach(owned(first))))
	stays := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "of-another-owner"}}
	g.Expect(source.Client.Create(t.Context(), stays)).To(Succeed())
	g.Expect(source.Client.Delete(t.Context(), first)).To(Succeed())
	g.Eventually(packed).WithTimeout(patience).Should(BeEmpty())
	g.Expect(source.Client.Get(t.Context(), client.ObjectKeyFromObject(stays), stays)).To(Succeed())

	// A new one of the name has Secrets of its own, also those that the former one left.
	pack(one)
	former := managed()
	orphan := metav1.DeletePropagationOrphan
	g.Expect(source.Client.Delete(t.Context(), former, &client.DeleteOptions{PropagationPolicy: &orphan})).To(Succeed())
	g.Eventually(func() error {
		return source.Client.Get(t.Context(), client.ObjectKeyFromObject(former), former)
	}).WithTimeout(patience).ShouldNot(Succeed())
	pack(one)
	g.Expect(packed()).To(ConsistOf(owned(managed())))

	// What is written to a Secret that is going would go with it.
	going := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "managedresource-guarded", Finalizers: []string{"example.org/guard"}}}
	g.Expect(source.Client.Create(t.Context(), going)).To(Succeed())
	g.Expect(source.Client.Delete(t.Context(), going)).To(Succeed())
	code, said := run(one, "guarded")
	g.Expect(code).To(Equal(cli.ExitRefused))
	g.Expect(said).To(ContainSubstring("secret/managedresource-guarded is being deleted"))

	t.Run("Secrets of others are refused", func(t *testing.T) { refusesSecretsOfOthers(t, source.Client, ns, run) })
	t.Run("Secrets that others refer to stay", func(t *testing.T) { leavesSharedSecrets(t, source.Client, ns, run) })
}

// large fills two Secrets.
var large = func() string {
	value := strings.Repeat("x", 700_000)
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\ndata: {key: " + value + "}\n---\n" +
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: two}\ndata: {key: " + value + "}\n"
}()

const small = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: small}\n"

type runner func(content, name string, args ...string) (code int, said string)

func refusesSecretsOfOthers(t *testing.T, c client.Client, ns string, run runner) {
	g := NewWithT(t)
	for content, name := range map[string]string{large: "a", small: "b-2"} {
		code, said := run(content, name)
		g.Expect(code).To(Equal(cli.ExitOK), said)
	}
	label := map[string]string{"trellisctl.hub.gardener.cloud/packed-for": "owned"}
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "owner"}}
	g.Expect(c.Create(t.Context(), owner)).To(Succeed())
	references := []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: owner.UID}}
	for _, meta := range []metav1.ObjectMeta{
		{Namespace: ns, Name: "managedresource-manual"},
		{Namespace: ns, Name: "managedresource-owned", Labels: label, OwnerReferences: references},
	} {
		g.Expect(c.Create(t.Context(), &corev1.Secret{ObjectMeta: meta})).To(Succeed())
	}
	versions := func() map[string]string {
		secrets, mrs, found := &corev1.SecretList{}, &resourcesv1alpha1.ManagedResourceList{}, map[string]string{}
		g.Expect(c.List(t.Context(), secrets, client.InNamespace(ns))).To(Succeed())
		g.Expect(c.List(t.Context(), mrs, client.InNamespace(ns))).To(Succeed())
		for _, s := range secrets.Items {
			found["Secret "+s.Name] = s.ResourceVersion
		}
		for _, mr := range mrs.Items {
			found["ManagedResource "+mr.Name] = mr.ResourceVersion
		}
		return found
	}

	before := versions()
	g.Expect(before).To(And(HaveKey("Secret managedresource-a-2"), HaveKey("Secret managedresource-b-2")))
	for _, test := range []struct{ content, name, says string }{
		{small, "a-2", "secret/managedresource-a-2 was packed for ManagedResource a and not for ManagedResource a-2"},
		{large, "b", "secret/managedresource-b-2 was packed for ManagedResource b-2 and not for ManagedResource b"},
		{small, "manual", "secret/managedresource-manual exists and was not packed for ManagedResource manual"},
		{small, "owned", "secret/managedresource-owned belongs to ConfigMap owner and not to ManagedResource owned"},
	} {
		code, said := run(test.content, test.name, "--force-conflicts")
		g.Expect(code).To(Equal(cli.ExitRefused), said)
		g.Expect(said).To(ContainSubstring(test.says))
		g.Expect(versions()).To(Equal(before), "nothing was written")
	}
}

func leavesSharedSecrets(t *testing.T, c client.Client, ns string, run runner) {
	g := NewWithT(t)
	get := func(name string) (*corev1.Secret, error) {
		s := &corev1.Secret{}
		return s, c.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: name}, s)
	}
	refer := func(name, secret string) {
		g.Expect(c.Create(t.Context(), testbed.ManagedResource(ns, name, secret))).To(Succeed())
	}
	const warning = "secret/%s gets no owner and stays when ManagedResource %s is deleted: " +
		"ManagedResource %s refers to it, too"

	// Another ManagedResource refers to it later: it loses its owner.
	code, said := run(large, "shared")
	g.Expect(code).To(Equal(cli.ExitOK), said)
	g.Expect(get("managedresource-shared-2")).To(HaveField("OwnerReferences", HaveLen(1)))
	refer("other", "managedresource-shared-2")
	code, said = run(large, "shared")
	g.Expect(code).To(Equal(cli.ExitOK), said)
	g.Expect(said).To(ContainSubstring(warning, "managedresource-shared-2", "shared", "other"))
	g.Expect(get("managedresource-shared")).To(HaveField("OwnerReferences", HaveLen(1)))
	g.Expect(get("managedresource-shared-2")).To(HaveField("OwnerReferences", BeEmpty()))

	// Another ManagedResource referred to it before it existed.
	refer("early", "managedresource-late")
	code, said = run(small, "late")
	g.Expect(code).To(Equal(cli.ExitOK), said)
	g.Expect(said).To(ContainSubstring(warning, "managedresource-late", "late", "early"))
	g.Expect(get("managedresource-late")).To(HaveField("OwnerReferences", BeEmpty()))

	g.Expect(c.Delete(t.Context(), testbed.ManagedResource(ns, "shared"))).To(Succeed())
	g.Eventually(func() bool {
		_, err := get("managedresource-shared")
		return apierrors.IsNotFound(err)
	}).WithTimeout(patience).Should(BeTrue())
	g.Expect(get("managedresource-shared-2")).To(HaveField("DeletionTimestamp", BeNil()))
}
