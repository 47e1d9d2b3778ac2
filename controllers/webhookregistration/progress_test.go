package webhookregistration

import (
	"context"
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/webhooks"
	"github.com/trellis-hub/trellis/webhooks/certificates"
	"github.com/trellis-hub/trellis/webhooks/routes"
)

// clusters are targets of which only the status is known. Like a real cache, they do not list the source.
type clusters struct {
	clustercache.ClusterCache
	all []clustercache.Status
}

func (c clusters) List(string) (listed []clustercache.Status) {
	for _, status := range c.all {
		if status.Cluster.Namespace != "" {
			listed = append(listed, status)
		}
	}
	return listed
}

func (c clusters) GetStatus(key clustercache.ClusterKey) (clustercache.Status, bool) {
	for _, status := range c.all {
		if status.Cluster == key {
			return status, true
		}
	}
	return clustercache.Status{}, false
}

// noTargetClusters is a source that has none.
type noTargetClusters struct{ ctrlcache.Cache }

func (noTargetClusters) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("none")
}

// What a rotation waits for is targets that call the hub, and no others: neither the source, if it does not.
func TestProgressOfARotation(t *testing.T) {
	source := clustercache.ClusterKey{Name: "source"}
	target := clustercache.ClusterKey{Namespace: "shoot", Name: "target"}
	for name, test := range map[string]struct {
		on    []clustercache.ClusterKey
		state clustercache.State
		known map[clustercache.ClusterKey]*known
		want  certificates.Progress
	}{
		"no target calls the hub": {
			nil, clustercache.StateConnected, map[clustercache.ClusterKey]*known{source: {}, target: {}},
			certificates.Progress{},
		},
		"all have what is new": {
			[]clustercache.ClusterKey{source, target}, clustercache.StateConnected,
			map[clustercache.ClusterKey]*known{source: {hash: "new"}, target: {hash: "new"}}, certificates.Progress{},
		},
		"none has it": {
			[]clustercache.ClusterKey{source, target}, clustercache.StateConnected,
			map[clustercache.ClusterKey]*known{source: {hash: "old"}, target: {}}, certificates.Progress{Pending: 2},
		},
		"one is away": {
			[]clustercache.ClusterKey{target}, clustercache.StateDisconnected,
			map[clustercache.ClusterKey]*known{}, certificates.Progress{Unreachable: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := &reconciler{Options: Options{Webhooks: webhooks.All(nil)}, known: test.known}
			r.Environment.Clusters = clusters{all: []clustercache.Status{
				{Cluster: source, State: test.state}, {Cluster: target, State: test.state},
			}}
			r.Environment.Source = noTargetClusters{}
			r.Settings = func(status clustercache.Status) (settings hubv1alpha1.TargetWebhooks) {
				for _, key := range test.on {
					if key == status.Cluster {
						settings.TokenInvalidator = &hubv1alpha1.Webhook{Enabled: ptr.To(true)}
					}
				}
				return settings
			}
			NewWithT(t).Expect(r.progress("new")).To(Equal(test.want))
		})
	}
}

// What an API server says of a configuration that it does not accept may contain the code of the target.
func TestErrorsContainNoCodes(t *testing.T) {
	g := NewWithT(t)
	route := routes.Route{
		Target: clustercache.ClusterKey{Namespace: "shoot", Name: "target"}, UID: "uid", Webhook: "host",
	}
	path := route.Path([]byte("key"))
	err := redacted{apierrors.NewConflict(schema.GroupResource{}, "a", errors.New("not https://h"+path))}
	g.Expect(err.Error()).To(HaveSuffix("https://h/shoot/target/uid.(code)/host"))
	g.Expect(apierrors.IsConflict(err)).To(BeTrue())
}
