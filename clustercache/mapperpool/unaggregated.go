package mapperpool

import (
	"context"
	"crypto/sha512"
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

	"github.com/trellis-hub/trellis/untrusted"
)

// versionsAtOnce is how many versions of groups are asked for at the same time.
const versionsAtOnce = 16

// unaggregated reads discovery of a server that describes one version of a group at a time. client-go asks for as many
// of them as the server names, all at once, and does not bound the answers.
type unaggregated struct {
	config *rest.Config
	client *http.Client
	left   *budget // for all answers together

	mu      sync.Mutex
	content *content
}

// discoverUnaggregated asks a server without aggregated discovery, in one call for each group version.
func (p *Pool) discoverUnaggregated(ctx context.Context, config *rest.Config, client *http.Client) (discovered, error) {
	u := &unaggregated{config: config, client: client, left: newBudget(), content: newContent()}
	if err := u.readGroups(ctx); err != nil {
		return discovered{}, err
	}
	if err := u.content.check(); err != nil { // before it is asked for what is named
		return discovered{}, err
	}
	u.content.dropRepeated()
	if err := u.readAll(ctx); err != nil {
		return discovered{}, err
	}
	if err := u.content.check(); err != nil {
		return discovered{}, err
	}
	if len(u.content.failed) > 0 { // the error text of a target is not shown to others
		return discovered{entry: u.content.assemble()}, nil
	}
	digest, err := u.content.digest()
	if err != nil {
		return discovered{}, err
	}
	found, err := p.get(documents{groups: digest}, func() (*entry, error) { return u.content.assemble(), nil })
	return discovered{entry: found}, err
}

// digest is a hash of all there is. Single things are written, for the text of all can be six times what the server
// sent.
func (c *content) digest() (string, error) {
	sum := sha512.New()
	encoder := json.NewEncoder(sum)
	for _, group := range c.groups {
		if err := encoder.Encode(group); err != nil {
			return "", fmt.Errorf("discovery: %w", err)
		}
	}
	for _, group := range c.groups {
		for _, version := range group.Versions {
			gv := schema.GroupVersion{Group: group.Name, Version: version.Version}
			list := c.resources[gv]
			if err := encoder.Encode(gv.String()); err != nil {
				return "", fmt.Errorf("discovery: %w", err)
			}
			for i := range list.APIResources {
				if err := encoder.Encode(&list.APIResources[i]); err != nil {
					return "", fmt.Errorf("discovery: %w", err)
				}
			}
		}
	}
	return digestOfSum(sum), nil
}

// readGroups reads the groups that the server names.
func (u *unaggregated) readGroups(ctx context.Context) error {
	core := &metav1.APIGroup{}
	err := u.read(ctx, func(w walker) error {
		return w.listIn("versions", func() error {
			var version string
			if err := w.Decode(&version); err != nil {
				return err
			}
			core.Versions = append(core.Versions,
				metav1.GroupVersionForDiscovery{GroupVersion: version, Version: version})
			return u.left.versions.take(1)
		})
	}, "api")
	if err != nil && !isAbsent(err) {
		return err
	}
	if len(core.Versions) > 0 {
		core.PreferredVersion = core.Versions[0]
		u.content.groups = append(u.content.groups, core)
	}
	err = u.read(ctx, func(w walker) error {
		return w.listIn("groups", func() error {
			if err := u.left.groups.take(1); err != nil {
				return err
			}
			var g struct {
				Name             string                            `json:"name"`
				Versions         []metav1.GroupVersionForDiscovery `json:"versions"`
				PreferredVersion metav1.GroupVersionForDiscovery   `json:"preferredVersion"`
			}
			if err := w.Decode(&g); err != nil {
				return err
			}
			u.content.groups = append(u.content.groups,
				&metav1.APIGroup{Name: g.Name, Versions: g.Versions, PreferredVersion: g.PreferredVersion})
			return u.left.versions.take(int64(len(g.Versions)))
		})
	}, "apis")
	if err != nil && !isAbsent(err) {
		return err
	}
	return nil
}

// isAbsent reports whether a server has no such document. One that does not let the hub read it may have everything.
func isAbsent(err error) bool { return apierrors.IsNotFound(err) }

// readAll reads what each version of each group has. One that cannot be read is among the failed ones, unless the hub
// does not accept the answer.
func (u *unaggregated) readAll(ctx context.Context) error {
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(versionsAtOnce)
	for _, group := range u.content.groups {
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
				u.content.failed[gv] = err
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
	list := &metav1.APIResourceList{GroupVersion: gv.String()}
	if err := u.read(ctx, func(w walker) error {
		return w.listIn("resources", func() error {
			var r struct { // what a mapper needs of it
				Name         string `json:"name"`
				SingularName string `json:"singularName"`
				Namespaced   bool   `json:"namespaced"`
				Group        string `json:"group"`
				Version      string `json:"version"`
				Kind         string `json:"kind"`
			}
			if err := w.Decode(&r); err != nil {
				return err
			}
			list.APIResources = append(list.APIResources, metav1.APIResource{
				Name: r.Name, SingularName: r.SingularName, Namespaced: r.Namespaced,
				Group: r.Group, Version: r.Version, Kind: r.Kind,
			})
			return u.left.takeResource(r.Name)
		})
	}, path...); err != nil {
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.content.resources[gv] = list
	return nil
}

// read asks for one answer, which decoding reads.
func (u *unaggregated) read(ctx context.Context, decoding func(walker) error, path ...string) error {
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
	_, err = decode(response.Body, u.left, decoding)
	return err
}
