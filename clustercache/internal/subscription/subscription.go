package subscription

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/trellis-hub/trellis/clustercache/internal/watching"
)

// stream is a stream of a target, which its subscriptions share.
type stream struct {
	*watching.Stream
	key           key
	subscriptions int                  // guarded by the set's mu
	boundTo       *watching.Connection // only used by Bind, Rewind and Promote
}

// key is what the subscriptions to a stream have in common. own is nil but for one that is not shared.
type key struct {
	kind                       schema.GroupVersionKind
	metadataOnly, optional     bool
	namespace, labels, objects string
	form, fields               string
	own                        *watching.Spec
}

func keyOf(spec *watching.Spec, form string) key {
	k := key{
		kind: spec.Kind, metadataOnly: spec.MetadataOnly, optional: spec.Optional, namespace: spec.Namespace, form: form,
	}
	if spec.LabelSelector != nil {
		k.labels = spec.LabelSelector.String()
	}
	if spec.FieldSelector != nil {
		k.objects = spec.FieldSelector.String()
	}
	if spec.Fields != nil {
		paths := make([]string, len(spec.Fields))
		for i, path := range spec.Fields {
			paths[i] = strings.Join(path, "/")
		}
		k.fields = fmt.Sprintf("%q", paths)
	}
	if spec.Transform != nil && form == "" {
		k.own = spec
	}
	return k
}

// Subscription is a consumer's part in a stream.
type Subscription struct {
	*watching.Subscription
	set    *Set
	stream *stream
}

// Close ends the subscription, and its stream if it was the last one.
func (s *Subscription) Close() {
	if s.Subscription.Close() {
		s.set.leave(s.stream)
	}
}
