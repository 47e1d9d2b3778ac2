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
	mu     sync.Mutex
	claims map[clustercache.ClusterKey]Claim
	byUID  map[types.UID]map[clustercache.ClusterKey]struct{}
}

// NewIndex returns an index that knows nothing.
func NewIndex() *Index {
	return &Index{
		claims: map[clustercache.ClusterKey]Claim{},
		byUID:  map[types.UID]map[clustercache.ClusterKey]struct{}{},
	}
}

// Set notes what the TargetCluster of a target claims, or that it claims nothing. It returns the targets for which that
// makes a difference.
func (i *Index) Set(key clustercache.ClusterKey, claim Claim) []clustercache.ClusterKey {
	i.mu.Lock()
	defer i.mu.Unlock()
	before, uid := i.claims[key].UID, claim.UID
	if i.claims[key] == claim {
		return nil
	}

	var concerned []clustercache.ClusterKey
	if before != "" {
		delete(i.claims, key)
		delete(i.byUID[before], key)
	}
	if before != "" && before != uid {
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
		i.claims[key] = claim
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
	for other := range i.byUID[i.claims[key].UID] {
		if other != key {
			others = append(others, other)
		}
	}
	slices.SortFunc(others, func(a, b clustercache.ClusterKey) int { return strings.Compare(a.String(), b.String()) })
	return others
}
