package registrations

import (
	"fmt"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/hack/fleetsim"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// flapping is for how long a registration changes once a second.
const flapping = time.Minute

// refused returns a kubeconfig of a target that the hub refuses.
func refused(kubeconfig []byte) []byte {
	return testbed.Rewrite(kubeconfig, func(config *testbed.KubeConfig) {
		for _, user := range config.AuthInfos {
			user.Token, user.Exec = "", &clientcmdapi.ExecConfig{Command: "sh", APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: clientcmdapi.NeverExecInteractiveMode}
		}
	})
}

// TestSecretThatFlaps has a program change a registration once a second for a minute, and leave it as it was.
func TestSecretThatFlaps(t *testing.T) {
	for name, c := range map[string]struct {
		targets int
		change  func(p *place) error // what another change takes back
		back    func(p *place) error
		served  bool   // the connection continues
		watched bool   // and its watches do
		reason  string // of an event about it
	}{
		"between a kubeconfig that is refused and the one in use": {
			targets: 1, served: true, watched: true, reason: hubv1alpha1.ReasonKubeconfigRefused,
			change: func(p *place) error {
				return source.Client.Update(p.ctx, testbed.Registration(p.name, "target", refused(p.targets[0].Kubeconfig())))
			},
			back: func(p *place) error { return source.Client.Update(p.ctx, p.registration("target", p.targets[0])) },
		},
		"between being there and not": {
			targets: 1, served: true, reason: hubv1alpha1.ReasonRegistrationGone,
			change: func(p *place) error {
				secret := p.registration("target", p.targets[0])
				secret.Annotations = map[string]string{hubv1alpha1.ConfirmDeletionAnnotation: "true"}
				if err := source.Client.Update(p.ctx, secret); err != nil {
					return err
				}
				return source.Client.Delete(p.ctx, secret)
			},
			back: func(p *place) error { return source.Client.Create(p.ctx, p.registration("target", p.targets[0])) },
		},
		"between two clusters": {
			targets: 2, reason: hubv1alpha1.ReasonIdentityChanged,
			change: func(p *place) error { return source.Client.Update(p.ctx, p.registration("target", p.targets[1])) },
			back:   func(p *place) error { return source.Client.Update(p.ctx, p.registration("target", p.targets[0])) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t, c.targets)
			target := p.targets[0]
			p.register("target", target)
			p.manage("mr", "1", 12)
			p.eventuallyReady("mr")
			p.eventually("target", hubv1alpha1.ConditionReady, "True/Ready")
			uid, began, watches := p.target("target").UID, time.Now(), p.watches()

			flapped := make(chan error, 1)
			go func() { flapped <- p.flap(c.change, c.back) }()
			var corrections []any // as part of a run of everything, they are updates
			for over := false; !over; {
				// Each object once, for who changes one again and again is contested.
				name := fmt.Sprint("mr-", len(corrections))
				corrections = append(corrections, MatchRegexp("^(apply|update) configmaps default/"+name+"$"))
				p.edit(target, name, "edited")
				if c.served {
					p.Eventually(func() string { return p.value(target, name) }).Should(Equal("1"))
				}
				select {
				case err := <-flapped:
					p.Expect(err).NotTo(HaveOccurred())
					over = true
				case <-time.After(7 * time.Second):
				}
			}

			p.Eventually(func() []string { return p.changes(target, began) }).Should(ConsistOf(corrections...), "each is corrected once, and nothing else is written")
			p.eventually("target", hubv1alpha1.ConditionReady, "True/Ready")
			p.eventually("target", hubv1alpha1.ConditionCredentialsValid, "True/CredentialsAccepted")
			p.eventuallyReady("mr")
			p.expectCare(target, "mr-11", "1")
			p.Expect(p.target("target").UID).To(Equal(uid), "it is remembered what is known of the target")
			if c.served {
				p.Expect(p.sockets(target)).To(HaveLen(1), "the connection stays open")
			}
			if c.watched {
				p.Expect(p.watches()).To(Equal(watches), "and so do its watches")
			}
			for _, other := range p.targets[1:] {
				p.Expect(p.writes(other)).To(BeEmpty())
			}
			p.Expect(p.events("target", c.reason)).NotTo(BeEmpty())
			all := &corev1.EventList{}
			p.Expect(source.Client.List(p.ctx, all, client.InNamespace(p.name), client.MatchingFields{"involvedObject.kind": "TargetCluster"})).To(Succeed())
			p.Expect(len(all.Items)).To(BeNumerically("<", 45), "what flaps does not fill the source")
		})
	}
}

// flap makes a change and takes it back again, in turns of a second.
func (p *place) flap(change, back func(p *place) error) error {
	pace := time.NewTicker(time.Second)
	defer pace.Stop()
	for end := time.Now().Add(flapping); time.Now().Before(end); {
		for _, turn := range []func(*place) error{change, back} {
			if err := turn(p); err != nil {
				return err
			}
			<-pace.C
		}
	}
	return nil
}

// watches counts the watches of ConfigMaps that were begun in any target.
func (p *place) watches() int64 {
	n := int64(0)
	for _, target := range p.targets {
		for _, c := range target.Journal().Counts() {
			if c.Verb == "watch" && c.Resource == "configmaps" {
				n += c.Requests
			}
		}
	}
	return n
}

// sockets are those over which the hub wrote to a target, by their addresses.
func (p *place) sockets(target *fleetsim.Target) []string {
	var found []string
	for _, c := range target.Journal().History().Changes {
		if byHub(c) && !slices.Contains(found, c.Connection) {
			found = append(found, c.Connection)
		}
	}
	return found
}
