package informers_test

import (
	"context"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	cachetesting "k8s.io/client-go/tools/cache/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/trellis-hub/trellis/controllers/internal/informers"
)

// one has the informer of one kind.
type one struct {
	cache.Informers
	informer cache.Informer
}

func (o one) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	return o.informer, nil
}

func named(name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Data: map[string]string{"value": value},
	}
}

func TestChangesAreFollowedForATerm(t *testing.T) {
	g := NewWithT(t)
	g.SetDefaultEventuallyTimeout(2 * time.Minute)
	source := cachetesting.NewFakeControllerSource()
	source.Add(named("a", "1")) // the informer is to list it
	informer := toolscache.NewSharedIndexInformer(source, &corev1.ConfigMap{}, 0, nil)
	ended := make(chan struct{})
	stop := make(chan struct{})
	go func() {
		informer.Run(stop)
		close(ended)
	}()
	defer func() {
		close(stop)
		<-ended
	}()

	var mu sync.Mutex
	var seen []string
	text := func(cm *corev1.ConfigMap) string {
		if cm == nil {
			return "nothing"
		}
		return cm.Name + "=" + cm.Data["value"]
	}
	all := func() []string {
		mu.Lock()
		defer mu.Unlock()
		return append([]string{}, seen...)
	}
	changed := func(before, after *corev1.ConfigMap, initial bool) {
		mu.Lock()
		defer mu.Unlock()
		change := text(before) + " -> " + text(after)
		if initial {
			change += ", initial"
		}
		seen = append(seen, change)
	}
	g.Eventually(informer.HasSynced).Should(BeTrue())
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	g.Expect(Follow(ctx, one{informer: informer}, &corev1.ConfigMap{}, &work, changed)).To(Succeed())
	g.Expect(all()).To(Equal([]string{"nothing -> a=1, initial"}), "it returns when all that exist were handled")

	source.Add(named("b", "1"))
	source.Modify(named("b", "2"))
	source.Delete(named("b", "2"))
	g.Eventually(all).Should(HaveLen(4))
	g.Expect(all()[1:]).To(Equal([]string{"nothing -> b=1", "b=1 -> b=2", "b=2 -> nothing"}))

	source.DeleteDropWatch(named("a", "1"))
	source.ResetWatch()
	g.Eventually(all).Should(ContainElement("a=1 -> nothing"), "a deletion that the watch has missed")

	cancel()
	work.Wait()
	n := len(all())
	source.Add(named("c", "1"))
	g.Eventually(func() int { return len(informer.GetStore().List()) }).Should(Equal(1))
	g.Expect(all()).To(HaveLen(n), "nothing is left of the term")
}
