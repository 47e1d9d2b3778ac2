package tokeninvalidator

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/utils/ptr"
)

// invalid is a token that no API server accepts.
var invalid = []byte{0, 0, 0}

func TestTI15_TokensOfServiceAccountsThatMountThemStayValid(t *testing.T) {
	b := newBench(t)
	b.webhook(shared.A)
	b.start(nil)
	account := b.account(shared.A, "a", nil)
	b.account(shared.A, "off", ptr.To(false))
	b.secret(shared.A, "s", "a")
	b.Eventually(b.labels(shared.A, "s")).Should(Equal(purpose))
	b.patch(shared.A, account, `{"automountServiceAccountToken":true}`)
	b.secret(shared.A, "other", "off")
	b.Eventually(b.token(shared.A, "other")).Should(Equal(invalid))
	b.Consistently(b.token(shared.A, "s"), "500ms").Should(Equal([]byte("valid")))
}

func TestTI16_TokensOfServiceAccountsThatMountNoneBecomeInvalid(t *testing.T) {
	b := newBench(t)
	b.webhook(shared.A)
	b.start(nil)
	b.account(shared.A, "a", ptr.To(false))
	secret := b.secret(shared.A, "s", "a")
	b.Eventually(b.token(shared.A, "s")).Should(Equal(invalid))
	b.Expect(b.read(shared.A, "s").Data).To(HaveKeyWithValue("ca.crt", []byte("authority")))

	t.Log("they stay so")
	b.patch(shared.A, secret.DeepCopy(), `{"data":{"token":null}}`)
	b.Expect(b.token(shared.A, "s")()).To(Equal(invalid))
	b.patch(shared.A, secret.DeepCopy(), `{"data":{"token":"dmFsaWQ="}}`)
	b.Expect(b.token(shared.A, "s")()).To(Equal(invalid))
}

func TestTI17_TokensOfServiceAccountsThatAreSkippedAreGeneratedAgain(t *testing.T) {
	b := newBench(t)
	b.webhook(shared.A)
	b.start(nil)
	account := b.account(shared.A, "a", ptr.To(false))
	secret := b.secret(shared.A, "s", "a")
	b.Eventually(b.token(shared.A, "s")).Should(Equal(invalid))
	b.patch(shared.A, account, `{"metadata":{"labels":{"`+SkipLabel+`":"true"}}}`)
	b.Eventually(b.labels(shared.A, "s")).Should(Equal(purpose))
	b.Expect(b.read(shared.A, "s").Data).To(Equal(map[string][]byte{"ca.crt": []byte("authority")}))

	t.Log("what the controller manager of the target would generate stays")
	b.patch(shared.A, secret.DeepCopy(), `{"data":{"token":"bmV3"}}`)
	b.Expect(b.token(shared.A, "s")()).To(Equal([]byte("new")))

	t.Log("and the other way round")
	b.patch(shared.A, account, `{"metadata":{"labels":{"`+SkipLabel+`":null}}}`)
	b.Eventually(b.token(shared.A, "s")).Should(Equal(invalid))
}
