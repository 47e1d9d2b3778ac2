package chart_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	chart "github.com/trellis-hub/trellis/charts/trellis"
	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// The hub may patch Secrets; the policy narrows that down to tokens of access Secrets.
func TestHubWritesTokensOnly(t *testing.T) {
	g := NewWithT(t)
	ctx := t.Context()
	cp := controlplane.StartForTest(t, controlplane.Options{})
	as := func(user string) client.Client {
		config := rest.CopyConfig(cp.RESTConfig())
		config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:masters"}}
		c, err := client.New(config, client.Options{Scheme: testbed.Scheme()})
		g.Expect(err).NotTo(HaveOccurred())
		return c
	}
	admin, hub := as("jane"), as("system:serviceaccount:garden:trellis")
	for _, object := range chart.SecretWrites("garden") {
		g.Expect(admin.Create(ctx, object)).To(Succeed())
	}
	access := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceDefault, Name: "access",
			Labels:      map[string]string{"resources.gardener.cloud/purpose": "token-requestor"},
			Annotations: map[string]string{"serviceaccount.resources.gardener.cloud/name": "component"},
			Finalizers:  []string{"resources.gardener.cloud/token-requestor"},
		},
		Data: map[string][]byte{"other": []byte("kept")},
	}
	foreign := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "foreign"}}
	g.Expect(admin.Create(ctx, access)).To(Succeed())
	g.Expect(admin.Create(ctx, foreign)).To(Succeed())
	patch := func(secret *corev1.Secret, text string) error {
		return hub.Patch(ctx, secret.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(text)), client.DryRunAll)
	}
	// The API server takes a moment until it uses new policies.
	g.Eventually(func() error { return patch(foreign, `{"data":{"token":"YQ=="}}`) }).
		Should(MatchError(apierrors.IsInvalid, "IsInvalid"))

	for name, test := range map[string]struct {
		secret  *corev1.Secret
		patch   string
		refusal string // empty: it is allowed
	}{
		"a token and when it is renewed": {access, `{"data":{"token":"YQ==","bundle.crt":"YQ=="},"metadata":{"annotations":` +
			`{"serviceaccount.resources.gardener.cloud/token-renew-timestamp":"2026-01-01T00:00:00Z"}}}`, ""},
		"a kubeconfig":           {access, `{"data":{"kubeconfig":"YQ==","value":"YQ=="}}`, ""},
		"the old finalizer goes": {access, `{"metadata":{"finalizers":null}}`, ""},
		"what is no token":       {access, `{"data":{"other":"YQ=="}}`, "tokens, certificates and kubeconfigs only"},
		"other data go":          {access, `{"data":{"other":null}}`, "tokens, certificates and kubeconfigs only"},
		"more data":              {access, `{"data":{"more":"YQ=="}}`, "tokens, certificates and kubeconfigs only"},
		"which account it names": {access, `{"metadata":{"annotations":{"serviceaccount.resources.gardener.cloud/name":"a"}}}`, "time of renewal only"},
		"another annotation":     {access, `{"metadata":{"annotations":{"a":"b"}}}`, "time of renewal only"},
		"its labels":             {access, `{"metadata":{"labels":{"a":"b"}}}`, "access Secrets only"},
		"its owners": {access, `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"a","uid":"a"}]}}`,
			"does not change owners"},
		"another finalizer":  {access, `{"metadata":{"finalizers":["example.com/a"]}}`, "does not change owners"},
		"whether it changes": {access, `{"immutable":true}`, "does not change owners"},
		"a Secret becomes one": {foreign, `{"metadata":{"labels":{"resources.gardener.cloud/purpose":"token-requestor"}}}`,
			"access Secrets only"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			err := patch(test.secret, test.patch)
			if test.refusal == "" {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			g.Expect(err).To(MatchError(ContainSubstring(test.refusal)))
		})
	}
	created := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "new"}}
	g.Expect(hub.Create(ctx, created, client.DryRunAll)).To(MatchError(ContainSubstring("creates no Secrets")))
	g.Expect(admin.Create(ctx, created, client.DryRunAll)).To(Succeed(), "others do")
}
