package pack_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/cmd/trellisctl/app"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/hubtest"
)

// patience is how long the garbage collector may take.
const patience = 2 * time.Minute

func TestSecretsGoWithTheirManagedResource(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	g := NewWithT(t)
	source, err := hubtest.StartCluster(t.Context(), controlplane.Options{Name: "source", ControllerManager: true})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(source.Stop)
	g.Expect(hubtest.InstallSource(t.Context(), source.Client)).To(Succeed())
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
	stays := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "of-somebody-else"}}
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
}
