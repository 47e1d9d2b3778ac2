package managedresource

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"k8s.io/utils/clock"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// silentSource lists nothing, and for a while not even that.
type silentSource struct {
	client.Client
	until time.Time
}

func (s silentSource) List(context.Context, client.ObjectList, ...client.ListOption) error {
	if time.Now().Before(s.until) {
		return errors.New("no")
	}
	return nil
}

type emptyCache struct{ ctrlcache.Cache }

func (emptyCache) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }

// A controller that waits for the source has not begun, so that it does not count as stuck.
func TestB1_ControllerBeginsWhenTheSourceHasSaidWhatIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		c := &Controller{options: Options{
			Client: silentSource{until: time.Now().Add(time.Hour)}, Cache: emptyCache{}, Clock: clock.RealClock{}, Logger: logr.Discard(),
		}}
		done := make(chan bool, 1)
		go func() { done <- c.caughtUp(t.Context()) }()
		time.Sleep(59 * time.Minute)
		synctest.Wait()
		g.Expect(c.Began()).To(BeZero())
		g.Expect(<-done).To(BeTrue())
		g.Expect(c.Began()).To(BeTemporally("~", time.Now(), time.Second))
	})
}
