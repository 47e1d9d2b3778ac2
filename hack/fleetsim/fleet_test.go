package fleetsim_test

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"

	"github.com/trellis-hub/trellis/addresses"
	"github.com/trellis-hub/trellis/clustercache/kubeconfig"
	"github.com/trellis-hub/trellis/hack/fleetsim"
)

func TestTargetsAreClustersOfTheirOwn(t *testing.T) {
	g := NewWithT(t)
	fleet := start(t, fleetsim.Options{Targets: 5, Seed: 7})
	hosts, uids := map[string]bool{}, map[string]bool{}
	for i, target := range fleet.Targets() {
		g.Expect(target.Name()).To(Equal(fmt.Sprintf("target-%04d", i+1)))
		g.Expect(target.Host()).To(HavePrefix("https://127.0.0.1:"))
		uid, err := visit(t, target).identity()
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(uid).To(BeEquivalentTo(target.UID()))
		hosts[target.Host()], uids[uid] = true, true
	}
	g.Expect(hosts).To(HaveLen(5))
	g.Expect(uids).To(HaveLen(5))

	again := start(t, fleetsim.Options{Targets: 6, Seed: 7}).Targets()
	other := start(t, fleetsim.Options{Targets: 1, Seed: 8}).Targets()
	g.Expect(again[4].UID()).To(Equal(fleet.Targets()[4].UID()), "identities follow from the seed")
	g.Expect(uids).NotTo(HaveKey(string(again[5].UID())))
	g.Expect(uids).NotTo(HaveKey(string(other[0].UID())))
}

func TestAShareIsAlwaysTheSame(t *testing.T) {
	g := NewWithT(t)
	fleet := start(t, fleetsim.Options{Targets: 10, Seed: 1})
	names := func(percent float64) (names []string) {
		targets, err := fleet.Share(percent)
		g.Expect(err).NotTo(HaveOccurred())
		for _, target := range targets {
			names = append(names, target.Name())
		}
		return names
	}
	g.Expect(names(30)).To(HaveLen(3))
	g.Expect(names(30)).To(Equal(names(30)))
	g.Expect(names(50)).To(ContainElements(names(30)))
	g.Expect(names(1)).To(HaveLen(1))
	g.Expect(names(0)).To(BeEmpty())
	g.Expect(names(100)).To(HaveLen(10))
	g.Expect(names(100)).To(Equal(slices.Sorted(slices.Values(names(100)))))
	g.Expect(names(30)).NotTo(Equal(names(100)[:3]), "they are drawn by lot")
	_, err := fleet.Share(101)
	g.Expect(err).To(MatchError(ContainSubstring("between 0 and 100")))
}

func TestACredentialIsGoodForItsTargetOnly(t *testing.T) {
	for _, kind := range []fleetsim.Credentials{fleetsim.Token, fleetsim.Certificate, fleetsim.TokenAndCertificate} {
		t.Run(string(kind), func(t *testing.T) {
			g := NewWithT(t)
			targets := start(t, fleetsim.Options{Targets: 2, Credentials: kind}).Targets()
			g.Expect(visit(t, targets[0]).hello()).To(Succeed())
			config := restConfig(t, targets[0])
			stranger := restConfig(t, targets[1])
			config.BearerToken, config.CertData, config.KeyData = stranger.BearerToken, stranger.CertData, stranger.KeyData
			g.Expect(connect(t, config).hello()).To(BeUnauthorized())
			config.BearerToken, config.CertData, config.KeyData = "", nil, nil
			g.Expect(connect(t, config).hello()).To(BeUnauthorized())
			config = restConfig(t, targets[0])
			config.CAData = stranger.CAData
			g.Expect(connect(t, config).hello()).To(MatchError(ContainSubstring("certificate signed by unknown authority")))
		})
	}
}

func TestTheHubTakesItsRegistration(t *testing.T) {
	for _, kind := range []fleetsim.Credentials{fleetsim.Token, fleetsim.Certificate, fleetsim.TokenAndCertificate} {
		t.Run(string(kind), func(t *testing.T) {
			g := NewWithT(t)
			target := one(t, fleetsim.Options{Credentials: kind})
			registration := target.Registration("shoot--fleet--a")
			g.Expect(registration.Namespace).To(Equal("shoot--fleet--a"))
			g.Expect(kubeconfig.IsRegistration(registration)).To(BeTrue())
			config, err := kubeconfig.FromSecret(registration, kubeconfig.Policy{Addresses: addresses.Any()})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(config.Server).To(Equal(target.Host()))
			hasToken, hasCertificate := config.Token != "", len(config.ClientCertificate) > 0
			g.Expect(hasToken).To(Equal(kind != fleetsim.Certificate))
			g.Expect(hasCertificate).To(Equal(kind != fleetsim.Token))
			rest := config.REST()
			rest.BearerToken = config.Token
			g.Expect(connect(t, rest).hello()).To(Succeed())
		})
	}
}

func TestOptionsThatMakeNoSenseAreRefused(t *testing.T) {
	for _, c := range []struct {
		name    string
		options fleetsim.Options
		says    string
	}{
		{"no targets", fleetsim.Options{}, "the number of targets is 0, and must be between 1 and 5000"},
		{"too many targets", fleetsim.Options{Targets: 5001}, "the number of targets is 5001"},
		{"a prefix that is no name", fleetsim.Options{Targets: 1, Prefix: "Shoot_"}, `the prefix "Shoot_" makes no names`},
		{"unknown credentials", fleetsim.Options{Targets: 1, Credentials: "password"}, `credentials "password" are unknown`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := fleetsim.Start(t.Context(), c.options)
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring(c.says)))
		})
	}
}

func TestNothingIsLeftOfAFleet(t *testing.T) {
	g := NewWithT(t)
	visitors := func() {
		fleet := start(t, fleetsim.Options{Targets: 100})
		var group errgroup.Group
		for _, target := range fleet.Targets() {
			v := visit(t, target)
			group.Go(v.hello)
		}
		g.Expect(group.Wait()).To(Succeed())
		g.Expect(fleet.Targets()[3].Stop()).To(Succeed())
		fleet.Stop()
		for _, target := range fleet.Targets() {
			g.Expect(target.Connections()).To(BeZero())
			g.Expect(target.Start()).To(MatchError(ContainSubstring("its fleet has ended")))
		}
		fleet.Stop()
	}
	visitors() // whatever is made once
	goroutines, files := runtime.NumGoroutine(), descriptors(g)
	visitors()
	g.Eventually(runtime.NumGoroutine, patience).Should(BeNumerically("<=", goroutines))
	g.Eventually(func() int { return descriptors(g) }, patience).Should(BeNumerically("<=", files))
}

// descriptors counts the open files of this process.
func descriptors(g Gomega) int {
	entries, err := os.ReadDir("/proc/self/fd")
	g.Expect(err).NotTo(HaveOccurred())
	return len(entries)
}
