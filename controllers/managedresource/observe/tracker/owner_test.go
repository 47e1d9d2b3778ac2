package tracker_test

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// If an owner is set that does not exist, the garbage collector deletes the object. When that is gone, nothing else
// shows why.
func TestOwnerOfAnObjectThatWentIsKnown(t *testing.T) {
	g, s := settled(t)
	owned := configMap("11", "")
	owned.OwnerReferences = []metav1.OwnerReference{{Kind: "Secret", Name: "gone", UID: "unknown"}}
	s.clusters.Put(cluster, watch, owned)
	g.Expect(s.OwnerOf(mr1, key)).To(BeEmpty())
	s.clusters.Delete(cluster, watch, key.NamespacedName())
	g.Expect(s.OwnerOf(mr1, key)).To(Equal("Secret gone"))

	s.clusters.Put(cluster, watch, configMap("12", ""))
	s.clusters.Delete(cluster, watch, key.NamespacedName())
	g.Expect(s.OwnerOf(mr1, key)).To(BeEmpty(), "it is the last time that counts")
	g.Expect(s.OwnerOf(mr2, key)).To(BeEmpty())
}
