package e2e

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// noise is text that does not compress below half its length.
func noise(seed uint64, length int) string {
	source := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // nothing is secret about it
	raw := make([]byte, length/2)
	for i := range raw {
		raw[i] = byte(source.Uint32())
	}
	return hex.EncodeToString(raw)
}

// spacious returns a space with a hub in which things may take their time.
func spacious(t *testing.T) *space {
	t.Helper()
	s := newSpace(t, nil)
	s.SetDefaultEventuallyTimeout(5 * time.Minute)
	s.register("target", east)
	s.startHub()
	return s
}

// One ManagedResource with 3,000 objects is applied, changed by one object, and cleaned up.
func TestManagedResourceWithThreeThousandObjects(t *testing.T) {
	const objects = 3000
	s := spacious(t)
	content := func(last string) *corev1.Secret {
		documents := make([]string, 0, objects)
		for i := range objects - 1 {
			documents = append(documents, s.configMap(fmt.Sprintf("object-%04d", i), "1"))
		}
		secret := testbed.Content(s.name, "mr", "objects.yaml.br")
		secret.Data["objects.yaml.br"] = testbed.Brotli(
			[]byte(strings.Join(append(documents, s.configMap("last", last)), "\n---\n")))
		return secret
	}
	s.manageWith(testbed.ManagedResource(s.name, "mr", "mr"), content("1"))
	s.eventuallyReady("mr")
	count := func() int {
		list := &corev1.ConfigMapList{}
		s.Expect(east.Client.List(s.ctx, list, client.InNamespace(s.name), client.HasLabels{resourcesv1alpha1.ManagedByLabel})).To(Succeed())
		return len(list.Items)
	}
	s.Expect(count()).To(Equal(objects))
	s.Expect(s.mr("mr").Status.Resources).To(HaveLen(objects))

	asked := listen(s.WithT, east)
	s.Expect(source.Client.Update(s.ctx, content("2"))).To(Succeed())
	s.eventuallyValue(east, "last", "2")
	s.eventuallyReady("mr")
	writes := without(asked(), func(e request) bool { return !isWrite(e) })
	s.Expect(writes).NotTo(BeEmpty())
	s.Expect(writes).To(HaveEach(HaveField("Name", "last")), "of many objects, the one that changed is sent")

	s.Expect(source.Client.Delete(s.ctx, s.mr("mr"))).To(Succeed())
	s.eventuallyGone("mr")
	s.Expect(count()).To(BeZero())
}

// As much as a Secret can hold is applied.
func TestBundleOfOneMebibyteCompressed(t *testing.T) {
	s := spacious(t)
	var documents []string
	for i := range 20 {
		documents = append(documents, s.configMap(fmt.Sprintf("large-%02d", i), noise(uint64(i), 97_000)))
	}
	secret := testbed.Content(s.name, "mr", "objects.yaml.br")
	secret.Data["objects.yaml.br"] = testbed.Brotli([]byte(strings.Join(documents, "\n---\n")))
	s.Expect(len(secret.Data["objects.yaml.br"])).To(And(BeNumerically(">", 950<<10), BeNumerically("<=", corev1.MaxSecretSize)))
	s.manageWith(testbed.ManagedResource(s.name, "mr", "mr"), secret)
	s.eventuallyReady("mr")
	s.Expect(s.value(east, "large-19")).To(Equal(noise(19, 97_000)))
}

// Labels of every object are in the inventory, and the size of an object is bounded: that is reported before anything
// is written.
func TestInventoryThatDoesNotFitIsRefusedAndNothingIsWritten(t *testing.T) {
	s := spacious(t)
	var documents []string
	for i := range 3000 {
		documents = append(documents, fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":%q,"name":"object-%d","annotations":{"note":%q}}}`, s.name, i, strings.Repeat("n", 300)))
	}
	secret := testbed.Content(s.name, "mr", "objects.yaml.br")
	secret.Data["objects.yaml.br"] = testbed.Brotli([]byte(strings.Join(documents, "\n---\n")))
	asked := listen(s.WithT, east)
	s.manageWith(testbed.ManagedResource(s.name, "mr", "mr"), secret)
	s.Eventually(func() []resourcesv1alpha1.Condition { return s.mr("mr").Status.Conditions }).Should(ContainElement(And(
		HaveField("Reason", resourcesv1alpha1.ReasonInventoryTooLarge), HaveField("Message", ContainSubstring("split the ManagedResource")))))
	s.Expect(without(asked(), func(e request) bool { return !isWrite(e) })).To(BeEmpty())
	s.Expect(s.mr("mr").Status.Resources).To(BeEmpty())
}
