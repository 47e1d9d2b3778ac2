package identity

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-hub/trellis/clustercache"
)

// Index knows which targets are the same cluster, as far as their TargetClusters show. Make one with NewIndex.
type Index struct {
	mu    sync.Mutex
	uids  map[clustercache.ClusterKey]types.UID
	byUID map[types.UID]map[clustercache.ClusterKey]struct{}
}

// NewIndex returns an index that knows nothing.
func NewIndex() *Index {
	return &Index{
		uids:  map[clustercache.ClusterKey]types.UID{},
		byUID: map[types.UID]map[clustercache.ClusterKey]struct{}{},
	}
}

// Set notes the cluster of a target, or that it has none if uid is empty. It returns the targets for which that makes a
// difference.
func (i *Index) Set(key clustercache.ClusterKey, uid types.UID) []clustercache.ClusterKey {
	i.mu.Lock()
	defer i.mu.Unlock()
	before := i.uids[key]
	if before == uid {
		return nil
	}

	var concerned []clustercache.ClusterKey
	if before != "" {
		delete(i.uids, key)
		delete(i.byUID[before], key)
		concerned = slices.AppendSeq(concerned, maps.Keys(i.byUID[before]))
		if len(i.byUID[before]) == 0 {
			delete(i.byUID, before)
		}
	}
	if uid != "" {
		concerned = slices.AppendSeq(concerned, maps.Keys(i.byUID[uid]))
		if i.byUID[uid] == nil {
			i.byUID[uid] = map[clustercache.ClusterKey]struct{}{}
		}
		i.uids[key] = uid
		i.byUID[uid][key] = struct{}{}
	}
	if len(concerned) > 0 {
		concerned = append(concerned, key)
	}
	return concerned
}

// Of returns the targets that are the cluster with a UID.
func (i *Index) Of(uid types.UID) []clustercache.ClusterKey {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Collect(maps.Keys(i.byUID[uid]))
}

// Others returns the other targets that are the same cluster, in order.
func (i *Index) Others(key clustercache.ClusterKey) []clustercache.ClusterKey {
	i.mu.Lock()
	defer i.mu.Unlock()
	var others []clustercache.ClusterKey
	for other := range i.byUID[i.uids[key]] {
		if other != key {
			others = append(others, other)
		}
	}
	slices.SortFunc(others, func(a, b clustercache.ClusterKey) int { return strings.Compare(a.String(), b.String()) })
	return others
}
