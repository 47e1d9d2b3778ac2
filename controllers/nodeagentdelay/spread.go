package nodeagentdelay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/internal/nodemarks"
	"github.com/trellis-hub/trellis/untrusted"
)

const (
	// delayAnnotation of a Node says how long its agent waits. It is a Go duration.
	delayAnnotation = "node-agent.gardener.cloud/reconciliation-delay"
	// roleLabel of a Secret, with this value, says that agents are configured with it; serialAnnotation, exactly "true",
	// that they take turns by themselves.
	roleLabel, roleOfConfig = "gardener.cloud/role", "operating-system-config"
	serialAnnotation        = "reconciliation.osc.node-agent.gardener.cloud/serial"

	// patches is how many Nodes of a target are patched at a time.
	patches = 10

	// A Node has up to some hundred elements of metadata, and an answer 131072.
	defaultPageSize   = 200
	defaultMaxObjects = 10_000
)

// errTooMany says that not everything could be looked at.
var errTooMany = errors.New("there are too many")

var (
	kindOfNodes   = corev1.SchemeGroupVersion.WithKind("Node")
	kindOfSecrets = corev1.SchemeGroupVersion.WithKind("Secret")
)

// node is what is needed of one.
type node struct {
	name, resourceVersion string
	secret                string // that of its agent
	delay                 string // that it has; empty: none
}

// spread gives each Node of a target its delay, and returns how many had another one.
func (r *reconciler) spread(ctx context.Context, c client.Client, settings Settings) (written int, err error) {
	nodes, err := r.nodes(ctx, c)
	if err != nil {
		return 0, err
	}
	slices.SortFunc(nodes, func(a, b node) int { return cmp.Compare(a.name, b.name) })

	var count atomic.Int64
	group := errgroup.Group{} // one that fails does not keep the others from being patched
	group.SetLimit(patches)
	for i, n := range nodes {
		delay := delayOf(i, len(nodes), settings).String()
		if n.delay == delay {
			continue
		}
		group.Go(func() error {
			if err := n.patch(ctx, c, delay); err != nil {
				return err
			}
			count.Add(1)
			return nil
		})
	}
	err = group.Wait()
	return int(count.Load()), err //nolint:wrapcheck // it names the Node
}

// delayOf is the delay of one Node of several.
func delayOf(i, n int, settings Settings) time.Duration {
	least, most := settings.MinDelay.Seconds(), settings.MaxDelay.Seconds()
	return time.Duration((least + float64(i)*(most-least)/float64(n)) * float64(time.Second))
}

// nodes returns those that get a delay.
func (r *reconciler) nodes(ctx context.Context, c client.Reader) ([]node, error) {
	var nodes []node
	labelled := false
	err := r.list(ctx, c, kindOfNodes, func(meta *metav1.PartialObjectMetadata) {
		n := node{
			name: meta.Name, resourceVersion: meta.ResourceVersion,
			secret: meta.Labels[nodemarks.AgentSecretLabel], delay: meta.Annotations[delayAnnotation],
		}
		nodes, labelled = append(nodes, n), labelled || n.secret != ""
	})
	if err != nil || !labelled {
		return nodes, err
	}
	serial := map[string]bool{}
	err = r.list(ctx, c, kindOfSecrets, func(meta *metav1.PartialObjectMetadata) {
		if meta.Annotations[serialAnnotation] == "true" {
			serial[meta.Name] = true
		}
	}, client.InNamespace(metav1.NamespaceSystem), client.MatchingLabels{roleLabel: roleOfConfig})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(nodes, func(n node) bool { return serial[n.secret] }), nil
}

// list calls visit for the metadata of all objects of a kind, or fails.
func (r *reconciler) list(ctx context.Context, c client.Reader, kind schema.GroupVersionKind,
	visit func(*metav1.PartialObjectMetadata), options ...client.ListOption) error {
	page := func(next string, seen int) (string, int, error) {
		ctx, done := clustercache.HoldAnswers(ctx) // what is kept of a page is small
		defer done()
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		err := c.List(ctx, list, append(slices.Clone(options), client.Limit(r.pageSize), client.Continue(next))...)
		if err != nil {
			return "", 0, err //nolint:wrapcheck // it is below
		}
		if seen += len(list.Items); seen > r.maxObjects {
			return "", 0, fmt.Errorf("%w: %d are looked at", errTooMany, r.maxObjects)
		}
		if len(list.Items) == 0 && list.Continue != "" {
			return "", 0, errors.New("a page is empty and not the last one")
		}
		for i := range list.Items {
			visit(&list.Items[i])
		}
		return list.Continue, seen, nil
	}
	for next, seen := "", 0; ; {
		var err error
		if next, seen, err = page(next, seen); err != nil {
			return fmt.Errorf("listing all of kind %s: %w", kind.Kind, err)
		}
		if next == "" {
			return nil
		}
	}
}

// patch sets the delay of a Node, if it still is what was read. One that is gone needs none.
func (n node) patch(ctx context.Context, c client.Client, delay string) error {
	before := &metav1.PartialObjectMetadata{}
	before.SetGroupVersionKind(kindOfNodes)
	before.Name, before.ResourceVersion = n.name, n.resourceVersion
	after := before.DeepCopy()
	after.Annotations = map[string]string{delayAnnotation: delay}
	err := c.Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("setting the delay of Node %s: %w", untrusted.Name(n.name), err)
	}
	return nil
}
