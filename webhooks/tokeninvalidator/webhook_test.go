package tokeninvalidator

import (
	"maps"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/testbed/reviews"
)

func TestWhatTheWebhookDoes(t *testing.T) {
	considered := map[string]string{resourcesv1alpha1.ConsiderTokenLabel: ""} // the value does not matter
	type data = map[string][]byte
	valid, authority := []byte("x"), []byte("y")
	both := data{"token": {0, 0, 0}, "ca.crt": authority}
	tests := map[string]struct {
		labels       map[string]string
		before, want data
		changed      bool
	}{
		"TI-11 no data":                  {considered, nil, nil, false},
		"TI-11 no data, not considered":  {nil, nil, nil, false},
		"TI-12 token":                    {considered, data{"token": valid, "ca.crt": authority}, both, true},
		"TI-12 token is missing":         {considered, data{"ca.crt": authority}, both, true},
		"TI-12 data is empty":            {considered, data{}, data{"token": {0, 0, 0}}, true},
		"TI-12 invalid already":          {considered, both, both, false},
		"TI-13 invalid, not considered":  {nil, maps.Clone(both), data{"ca.crt": authority}, true},
		"TI-14 token, not considered":    {nil, data{"token": valid}, data{"token": valid}, false},
		"TI-14 other zero bytes":         {nil, data{"token": {0, 0, 0, 0}}, data{"token": {0, 0, 0, 0}}, false},
		"TI-14 no token, not considered": {nil, data{"ca.crt": authority}, data{"ca.crt": authority}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Labels: test.labels}, Data: test.before}
			g.Expect(Invalidate(secret)).To(Equal(test.changed))
			g.Expect(secret.Data).To(Equal(test.want))
			g.Expect(Invalidate(secret)).To(BeFalse(), "once is enough")
		})
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Labels: considered}, Data: data{}}
	Invalidate(secret)
	secret.Data["token"][0] = 1
	NewWithT(t).Expect(invalidToken).To(Equal([]byte{0, 0, 0}), "Secrets share no memory")
}

func TestWhichSecretsTheWebhookGets(t *testing.T) {
	c := reviews.Target{Settings: reviews.Webhooks(t, "tokenInvalidator: {enabled: true}")}
	secret := func(labels, token string) string {
		return "{apiVersion: v1, kind: Secret, metadata: {labels: {" + labels + "}}, data: {ca.crt: eQ==, " +
			"token: " + token + "}}"
	}
	const purpose = "resources.gardener.cloud/purpose: token-invalidator"
	for name, test := range map[string]struct{ labels, before, want string }{
		"TI-12 a token":        {purpose + ", " + resourcesv1alpha1.ConsiderTokenLabel + `: ""`, "eA==", "AAAA"},
		"TI-14 not considered": {purpose, "eA==", "eA=="},
		"TI-18 another purpose": {"resources.gardener.cloud/purpose: " +
			"token-requestor, " + resourcesv1alpha1.ConsiderTokenLabel + `: ""`,
			"eA==", "eA=="},
		"TI-18 no purpose": {resourcesv1alpha1.ConsiderTokenLabel + `: "true"`, "eA==", "eA=="},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			answer := c.Send(t, Webhook(), secret(test.labels, test.before))
			g.Expect(answer.Err).NotTo(HaveOccurred())
			g.Expect(answer.Object).To(MatchYAML(secret(test.labels, test.want)))
			g.Expect(string(answer.Patch)).NotTo(ContainSubstring("eA=="), "what was sent is not sent back")
		})
	}
	t.Run("TI-13 an invalid one is removed", func(t *testing.T) {
		answer := c.Send(t, Webhook(), secret(purpose, "AAAA"))
		NewWithT(t).Expect(answer.Patch).To(MatchJSON(`[{"op": "remove", "path": "/data/token"}]`))
	})
}
