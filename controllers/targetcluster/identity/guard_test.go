package identity_test

import (
	"context"
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	. "github.com/trellis-hub/trellis/controllers/targetcluster/identity"
)

var shoot = clustercache.ClusterKey{Namespace: "shoot--foo--a", Name: "a"}

func TestGuard(t *testing.T) {
	confirms := func(uid string) map[string]string {
		return map[string]string{hubv1alpha1.ConfirmIdentityAnnotation: uid}
	}
	tests := map[string]struct {
		known       types.UID // in the TargetCluster; "none" means that there is no TargetCluster
		uid         types.UID
		annotations map[string]string
		refused     bool
	}{
		"no TargetCluster yet":                                     {"none", "a", nil, false},
		"a TargetCluster that was never connected":                 {"", "a", nil, false},
		"the known cluster":                                        {"a", "a", nil, false},
		"another cluster":                                          {"a", "b", nil, true},
		"another cluster that is confirmed":                        {"a", "b", confirms("b"), false},
		"another one than the confirmed cluster":                   {"a", "c", confirms("b"), true},
		"the known cluster, a confirmation of another one is left": {"b", "b", confirms("a"), false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var objects []client.Object
			if test.known != "none" {
				objects = append(objects, targetCluster(test.known))
			}
			err := NewGuard(reader(g, objects...)).Verify(t.Context(), shoot, test.uid, test.annotations)
			if !test.refused {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			g.Expect(err).To(MatchError(SatisfyAll(ContainSubstring("UID "+string(test.uid)), ContainSubstring("UID "+string(test.known)),
				ContainSubstring("hub.gardener.cloud/confirm-identity="+string(test.uid)))))
			g.Expect(errors.Is(err, clustercache.ErrIdentityUndecided)).To(BeFalse())
		})
	}
}

func TestGuardRemembersWhatTheTargetClusterDoesNotSayYet(t *testing.T) {
	g := NewWithT(t)
	guard := NewGuard(reader(g))
	g.Expect(guard.Verify(t.Context(), shoot, "a", nil)).To(Succeed())
	g.Expect(guard.Verify(t.Context(), shoot, "b", nil)).NotTo(Succeed())
	g.Expect(guard.Verify(t.Context(), shoot, "a", nil)).To(Succeed())

	guard.Forget(shoot)
	g.Expect(guard.Verify(t.Context(), shoot, "b", nil)).To(Succeed())
}

func TestGuardLetsStaticTargetsPass(t *testing.T) {
	g := NewWithT(t)
	guard := NewGuard(reader(g))
	source := clustercache.ClusterKey{Name: "source"}
	g.Expect(guard.Verify(t.Context(), source, "a", nil)).To(Succeed())
	g.Expect(guard.Verify(t.Context(), source, "b", nil)).To(Succeed())
}

func TestGuardIsUndecidedIfItCannotRead(t *testing.T) {
	g := NewWithT(t)
	broken := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return errors.New("the source is away")
		},
	}).Build()
	err := NewGuard(broken).Verify(t.Context(), shoot, "a", nil)
	g.Expect(errors.Is(err, clustercache.ErrIdentityUndecided)).To(BeTrue())
}

func targetCluster(uid types.UID) *hubv1alpha1.TargetCluster {
	return &hubv1alpha1.TargetCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: shoot.Namespace, Name: shoot.Name},
		Status:     hubv1alpha1.TargetClusterStatus{ClusterUID: uid},
	}
}

func reader(g *WithT, objects ...client.Object) client.Reader {
	scheme := runtime.NewScheme()
	g.Expect(hubv1alpha1.AddToScheme(scheme)).To(Succeed())
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
}
