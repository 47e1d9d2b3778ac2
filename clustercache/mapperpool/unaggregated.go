package mapperpool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/trellis-hub/trellis/clustercache/untrusted"
)

// versionsAtOnce is how many versions of groups are asked for at the same time.
const versionsAtOnce = 16

// unaggregated reads discovery of a server that describes one version of a group at a time. client-go asks for as many
// of them as the server names, all at once, and does not bound the answers.
type unaggregated struct {
	config *rest.Config
	client *http.Client

	mu        sync.Mutex
	bytes     int64 // that may still be read of all answers together
	elements  int
	resources map[schema.GroupVersion]*metav1.APIResourceList
	failed    map[schema.GroupVersion]error
}

// discoverUnaggregated asks a server without aggregated discovery, in one call for each group version.
func (p *Pool) discoverUnaggregated(ctx context.Context, config *rest.Config, client *http.Client) (discovered, error) {
	u := &unaggregated{
		config: config, client: client, bytes: maxBytes, elements: maxElements,
		resources: map[schema.GroupVersion]*metav1.APIResourceList{}, failed: map[schema.GroupVersion]error{},
	}
	groups, err := u.groups(ctx)
	if err != nil {
		return discovered{}, err
	}
	if err := check(groups, nil); err != nil {
		return discovered{}, err
	}
	if err := u.readAll(ctx, groups); err != nil {
		return discovered{}, err
	}
	if err := check(groups, u.resources); err != nil {
		return discovered{}, err
	}
	if len(u.failed) > 0 { // the error text of a target is not shown to others
		return discovered{entry: assemble(groups, u.resources, u.failed)}, nil
	}
	var all []*metav1.APIResourceList
	for _, group := range groups {
		for _, version := range group.Versions {
			all = append(all, u.resources[schema.GroupVersion{Group: group.Name, Version: version.Version}])
		}
	}
	raw, err := json.Marshal([]any{groups, all})
	if err != nil {
		return discovered{}, fmt.Errorf("discovery: %w", err)
	}
	found, err := p.get(documents{groups: digestOf(raw)}, func() (*entry, error) {
		return assemble(groups, u.resources, nil), nil
	})
	return discovered{entry: found}, err
}

// groups returns the groups that the server names.
func (u *unaggregated) groups(ctx context.Context) ([]*metav1.APIGroup, error) {
	var all []*metav1.APIGroup
	var core metav1.APIVersions
	if err := u.read(ctx, &core, "api"); err != nil && !isAbsent(err) {
		return nil, err
	}
	if len(core.Versions) > 0 {
		group := &metav1.APIGroup{}
		for _, version := range core.Versions {
			group.Versions = append(group.Versions,
				metav1.GroupVersionForDiscovery{GroupVersion: version, Version: version})
		}
		group.PreferredVersion = group.Versions[0]
		all = append(all, group)
	}
	var named metav1.APIGroupList
	if err := u.read(ctx, &named, "apis"); err != nil && !isAbsent(err) {
		return nil, err
	}
	for i := range named.Groups {
		g := &named.Groups[i]
		all = append(all, &metav1.APIGroup{Name: g.Name, Versions: g.Versions, PreferredVersion: g.PreferredVersion})
	}
	return all, nil
}

func isAbsent(err error) bool { return apierrors.IsNotFound(err) || apierrors.IsForbidden(err) }

// readAll reads what each version of each group has. One that cannot be read is among the failed ones, unless the hub
// does not accept the answer.
func (u *unaggregated) readAll(ctx context.Context, groups []*metav1.APIGroup) error {
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(versionsAtOnce)
	for _, group := range groups {
		for _, version := range group.Versions {
			gv := schema.GroupVersion{Group: group.Name, Version: version.Version}
			all.Go(func() error {
				err := u.readVersion(ctx, gv)
				if err == nil {
					return nil
				}
				if errors.Is(err, untrusted.ErrExceeded) || ctx.Err() != nil {
					return err
				}
				u.mu.Lock()
				defer u.mu.Unlock()
				u.failed[gv] = err
				return nil
			})
		}
	}
	return all.Wait() //nolint:wrapcheck // from here
}

func (u *unaggregated) readVersion(ctx context.Context, gv schema.GroupVersion) error {
	path := []string{"apis", gv.Group, gv.Version}
	if gv.Group == "" {
		path = []string{"api", gv.Version}
	}
	list := &metav1.APIResourceList{}
	if err := u.read(ctx, list, path...); err != nil {
		return err
	}
	kept := &metav1.APIResourceList{GroupVersion: gv.String()}
	kept.APIResources = make([]metav1.APIResource, len(list.APIResources))
	for i, r := range list.APIResources {
		kept.APIResources[i] = metav1.APIResource{
			Name: r.Name, SingularName: r.SingularName, Namespaced: r.Namespaced,
			Group: r.Group, Version: r.Version, Kind: r.Kind,
		}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.resources[gv] = kept
	return nil
}

// read reads one answer.
func (u *unaggregated) read(ctx context.Context, into any, path ...string) error {
	base, _, err := rest.DefaultServerUrlFor(u.config)
	if err != nil {
		return fmt.Errorf("address of the target: %w", err)
	}
	address := base.JoinPath(path...)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), nil)
	if err != nil {
		return fmt.Errorf("request of discovery: %w", err)
	}
	request.Header.Set("Accept", "application/json")
	response, err := u.client.Do(request)
	if err != nil {
		return fmt.Errorf("discovery: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("discovery: %w", apierrors.NewGenericServerResponse(
			response.StatusCode, http.MethodGet, schema.GroupResource{}, "", address.Path, 0, true))
	}
	u.mu.Lock()
	bytes, elements := u.bytes, u.elements
	u.mu.Unlock()
	raw, read, err := decode(response.Body, max(bytes, 1), max(elements, 1), into)
	if err != nil {
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.bytes -= int64(len(raw))
	u.elements -= read
	if u.bytes < 0 {
		return fmt.Errorf("discovery: %w", &untrusted.ExceededError{What: "bytes", Most: maxBytes})
	}
	return nil
}
