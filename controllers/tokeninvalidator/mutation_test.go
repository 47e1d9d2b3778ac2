package tokeninvalidator

import (
	"maps"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestWhatTheWebhookDoes(t *testing.T) {
	considered := map[string]string{ConsiderLabel: ""} // the value does not matter
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
			g.Expect(Mutate(secret)).To(Equal(test.changed))
			g.Expect(secret.Data).To(Equal(test.want))
			g.Expect(Mutate(secret)).To(BeFalse(), "once is enough")
		})
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Labels: considered}, Data: data{}}
	Mutate(secret)
	secret.Data["token"][0] = 1
	NewWithT(t).Expect(invalidToken).To(Equal([]byte{0, 0, 0}), "Secrets share no memory")
}
