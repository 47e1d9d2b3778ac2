package controlplane

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
)

func TestFindAsset(t *testing.T) {
	root := t.TempDir()
	write := func(path, content string) string {
		g := NewWithT(t)
		path = filepath.Join(root, path)
		g.Expect(os.MkdirAll(filepath.Dir(path), 0o700)).To(Succeed())
		g.Expect(os.WriteFile(path, []byte(content), 0o600)).To(Succeed())
		return path
	}
	write("go.mod", "module "+rootModule+"\n")
	write("hack/kube/go.mod", "module "+rootModule+"/hack/kube\n\nrequire (\n\tk8s.io/kubernetes v1.2.3\n)\n")
	deep := filepath.Dir(write("a/b/c.go", ""))
	scheduler := write("bin/kube/v1.2.3/kube-scheduler", "")
	write("bin/kube/v1.2.3/etcd", "")
	assets := filepath.Dir(write("assets/etcd", ""))

	t.Run("built", func(t *testing.T) {
		g := NewWithT(t)
		t.Chdir(deep)
		t.Setenv(assetsVariable, "")
		g.Expect(findAsset(Scheduler)).To(Equal(scheduler))
		_, err := findAsset(APIServer)
		g.Expect(err).To(MatchError(And(ContainSubstring("no kube-apiserver in"), ContainSubstring(`run "make kube" in`+" "+root))))
	})

	t.Run("given", func(t *testing.T) {
		g := NewWithT(t)
		t.Chdir(deep)
		t.Setenv(assetsVariable, assets)
		g.Expect(findAsset(Etcd)).To(Equal(filepath.Join(assets, "etcd")))
		g.Expect(findAsset(Scheduler)).To(Equal(scheduler), "no asset of envtest")
		_, err := findAsset(APIServer)
		g.Expect(err).To(MatchError(ContainSubstring("$KUBEBUILDER_ASSETS is set, but")))
	})

	t.Run("outside the repository", func(t *testing.T) {
		g := NewWithT(t)
		t.Chdir(t.TempDir())
		t.Setenv(assetsVariable, "")
		_, err := findAsset(Etcd)
		g.Expect(err).To(MatchError(ContainSubstring("is not inside the repository")))
	})
}
