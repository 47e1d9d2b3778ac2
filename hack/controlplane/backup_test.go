package controlplane

import (
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

func TestRestoreBringsBackWhatWas(t *testing.T) {
	g := NewWithT(t)
	ctx := t.Context()
	cp := StartForTest(t, Options{})
	maps := newClient(t, cp.RESTConfig()).CoreV1().ConfigMaps("default")
	create := func(name string) *corev1.ConfigMap {
		created, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		return created
	}
	kept := create("kept")
	backup := filepath.Join(t.TempDir(), "backup")
	g.Expect(cp.Backup(backup)).To(Succeed())

	for range 2 {
		g.Expect(maps.Delete(ctx, "kept", metav1.DeleteOptions{})).To(Succeed())
		lost := create("lost")
		g.Expect(cp.Restore(ctx, backup)).To(Succeed())
		_, err := maps.Get(ctx, "lost", metav1.GetOptions{})
		g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
		back, err := maps.Get(ctx, "kept", metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(back.ResourceVersion).To(Equal(kept.ResourceVersion))
		g.Expect(resourceversion.CompareResourceVersion(back.ResourceVersion, lost.ResourceVersion)).To(BeNumerically("<", 0))
	}
}
