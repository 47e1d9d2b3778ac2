package controllers

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/internal/multicluster"
	"github.com/trellis-hub/trellis/controllers/tokeninvalidator"
	"github.com/trellis-hub/trellis/leader/heartbeat"
)

const (
	// reasonTokensStayValid is that of the event about a TargetCluster with one half of the token invalidator.
	reasonTokensStayValid = "TokensStayValid"
	// tokensStayValid says what one half does.
	tokensStayValid = "controllers.tokenInvalidator only labels Secrets: static tokens stay valid, " +
		"for webhooks.tokenInvalidator, which invalidates them, is off"
)

func newTokenInvalidator(_ context.Context, t *term) (controller, error) {
	for i := range t.Config.Classes {
		if class := &t.Config.Classes[i]; onlyLabels(class) {
			t.Logger.Info("Warning: "+tokensStayValid, "class", class.Name)
		}
	}
	//nolint:contextcheck // its callbacks get no context to pass on
	invalidator, err := tokeninvalidator.New(tokeninvalidator.Options{
		Environment: t.inTargets(tokeninvalidator.Name),
		Settings: func(target clustercache.Status) (tokeninvalidator.Settings, bool) {
			own := t.Settings.Controllers(target).TokenInvalidator
			if own == nil {
				return tokeninvalidator.Settings{}, false
			}
			return tokeninvalidator.Settings{ConcurrentSyncs: int(*own.ConcurrentSyncs)}, true
		},
		Follow: t.warnOfHalves(t.followControllers),
	})
	if err != nil {
		return controller{}, err //nolint:wrapcheck // New says which controller
	}
	return controller{invalidator.Start, []heartbeat.Loop{
		{Name: tokeninvalidator.Name, StuckSince: invalidator.StuckSince},
	}}, nil
}

// onlyLabels reports whether a class has the controller of the token invalidator, and not its webhook.
func onlyLabels(class *configv1alpha1.Class) bool {
	own := class.Controllers.TokenInvalidator
	return own != nil && ptr.Deref(own.Enabled, false) && !class.Webhooks.TokenInvalidator.IsEnabled()
}

// warnOfHalves also writes an event on each followed TargetCluster, once its settings switch the token invalidator on
// without the webhook: tokens stay valid then. For settings of classes there is the log.
func (t *term) warnOfHalves(follow multicluster.FollowFunc) multicluster.FollowFunc {
	var mu sync.Mutex
	warned := map[clustercache.ClusterKey]bool{}
	turnsOn := func(key clustercache.ClusterKey) bool {
		status, _ := t.Clusters.GetStatus(key)
		status.Cluster = key
		webhooks := t.Settings.Webhooks(status)
		on := t.Settings.Controllers(status).TokenInvalidator != nil && !webhooks.TokenInvalidator.IsEnabled()
		mu.Lock()
		defer mu.Unlock()
		before := warned[key]
		if warned[key] = on; !on {
			delete(warned, key)
		}
		return on && !before
	}
	return func(ctx context.Context, work *sync.WaitGroup, changed func(clustercache.ClusterKey)) error {
		return follow(ctx, work, func(key clustercache.ClusterKey) {
			changed(key)
			if !turnsOn(key) {
				return
			}
			about := &hubv1alpha1.TargetCluster{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
			t.Events.Eventf(about, nil, corev1.EventTypeWarning, reasonTokensStayValid, "ReadSettings", "%s", tokensStayValid)
		})
	}
}
