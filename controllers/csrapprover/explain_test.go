package csrapprover_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	certificatesv1 "k8s.io/api/certificates/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/trellis-hub/trellis/controllers/csrapprover"
)

const deniedInTarget = "trellis_target_certificates_denied_total"

func TestDenialsAreCountedByTarget(t *testing.T) {
	b := start(t)
	series := func() (names []string) {
		families, err := b.registry.Gather()
		b.Expect(err).NotTo(HaveOccurred())
		for _, family := range families {
			for _, series := range family.GetMetric() {
				if family.GetName() == deniedInTarget {
					names = append(names, series.GetLabel()[0].GetValue())
				}
			}
		}
		return names
	}
	b.Eventually(series).Should(ConsistOf(alpha.key.String(), beta.key.String()), "before anything is denied")
	w := fulfilled("counted")
	w.user = "stranger"
	b.request(beta, "counted", w)
	b.denied(beta, "counted", "kubelet server certificate", `username "stranger" does not begin with "system:node:"`)
	b.Eventually(b.metric(deniedInTarget, "target", beta.key.String())).Should(BeEquivalentTo(1))
	b.Expect(b.metric(deniedInTarget, "target", alpha.key.String())()).To(BeZero())
	b.stop()
	b.Expect(series()).To(BeEmpty(), "nothing is left of a term")
}

func TestExplainJudgesWithoutDeciding(t *testing.T) {
	b := start(t, with(Settings{}))
	explain := func(name string) (*Judgement, error) {
		csr := &certificatesv1.CertificateSigningRequest{}
		b.Expect(alpha.client.Get(context.Background(), client.ObjectKey{Name: name}, csr)).To(Succeed())
		return Explain(context.Background(), Settings{}, home, alpha.client, alpha.client, csr)
	}
	b.request(alpha, "explained", fulfilled("explained"))
	j, err := explain("explained")
	b.Expect(err).NotTo(HaveOccurred())
	b.Expect(j).To(And(HaveField("Denied", true), HaveField("Missing", true), HaveField("Ours", true),
		HaveField("Check", `Node "explained" does not exist`), HaveField("Decided", BeNil())))
	csr := &certificatesv1.CertificateSigningRequest{}
	b.Expect(alpha.client.Get(context.Background(), client.ObjectKey{Name: "explained"}, csr)).To(Succeed())
	b.Expect(csr.Status.Conditions).To(BeEmpty())
	b.Expect(j.Until).To(Equal(csr.CreationTimestamp.Add(10 * time.Second)))

	csr.Spec.Request = []byte("nonsense")
	_, err = Explain(context.Background(), Settings{}, home, alpha.client, alpha.client, csr)
	b.Expect(err).To(MatchError(ContainSubstring("not in PEM")))
	b.Expect(IsUnusable(err)).To(BeTrue())
	_, err = Explain(context.Background(), Settings{MachineNamespace: "other"}, home, alpha.client, alpha.client, csr)
	b.Expect(err).To(MatchError(ContainSubstring("machineNamespace")))
	b.Expect(IsUnusable(err)).To(BeFalse())
	csr.Spec.SignerName = "example.org/other"
	j, err = Explain(context.Background(), Settings{}, home, alpha.client, alpha.client, csr)
	b.Expect(err).NotTo(HaveOccurred())
	b.Expect(j.Ours).To(BeFalse())

	b.node(alpha, "explained-too")
	b.machine(alpha, home, "machine-explained-too", "explained-too")
	b.request(alpha, "explained-too", fulfilled("explained-too"))
	j, err = explain("explained-too")
	b.Expect(err).NotTo(HaveOccurred())
	b.Expect(j).To(And(HaveField("Denied", true), HaveField("Missing", false),
		HaveField("Check", `the DNS names are not those of Node "explained-too"`)))
}
