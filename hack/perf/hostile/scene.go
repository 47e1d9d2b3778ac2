package hostile

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// scene is where an attack takes place: a namespace of the source, whose tenant may write Secrets and
// ManagedResources there and nothing else, and the servers that are registered in it.
type scene struct {
	*run

	namespace string
	tenant    client.Client
	servers   []*server
	// ends are called when the attack is over, and the others namespaces are removed besides its own.
	ends   []func()
	others []string
	// parts are scenes within this one.
	parts []*scene
}

// newScene makes a namespace and its tenant.
func (r *run) newScene(ctx context.Context) (*scene, error) {
	r.scenes++
	s := &scene{run: r, namespace: fmt.Sprintf("hostile-%d", r.scenes)}
	var err error
	s.tenant, err = r.newTenant(ctx, s.namespace)
	return s, err
}

// beside makes a scene with a namespace and a tenant of its own, which is over when this one is.
func (s *scene) beside(ctx context.Context) (*scene, error) {
	part, err := s.newScene(ctx)
	if err == nil {
		s.parts = append(s.parts, part)
	}
	return part, err
}

// newTenant makes a namespace, and a client of a user who may do there what a tenant may, and nothing else.
func (r *run) newTenant(ctx context.Context, namespace string) (client.Client, error) {
	const account = "tenant"
	meta := metav1.ObjectMeta{Namespace: namespace, Name: account}
	err := r.Writers.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"*"}},
			{
				APIGroups: []string{resourcesv1alpha1.GroupVersion.Group}, Verbs: []string{"*"},
				Resources: []string{"managedresources", "managedresources/status"},
			},
		}},
		&rbacv1.RoleBinding{
			ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: account},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account}},
		})
	if err != nil {
		return nil, err
	}
	kubeconfig, err := r.Source.ServiceAccountKubeconfig(ctx, namespace, account, 0)
	if err != nil {
		return nil, fmt.Errorf("tenant of %s: %w", namespace, err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("tenant of %s: %w", namespace, err)
	}
	config.QPS, config.UserAgent = -1, account
	tenant, err := client.New(config, client.Options{Scheme: testbed.Scheme()})
	if err != nil {
		return nil, fmt.Errorf("tenant of %s: %w", namespace, err)
	}
	return tenant, nil
}

// server starts a server that ends with the scene.
func (s *scene) server(o serverOptions) (*server, error) {
	srv, err := newServer(s.identity, o)
	if err == nil {
		s.servers = append(s.servers, srv)
	}
	return srv, err
}

// write creates an object as the tenant.
func (s *scene) write(ctx context.Context, object client.Object) error {
	if err := s.tenant.Create(ctx, object); err != nil {
		return fmt.Errorf("the tenant creates %T %s: %w", object, object.GetName(), err)
	}
	return nil
}

// register registers what a kubeconfig leads to.
func (s *scene) register(ctx context.Context, name string, kubeconfig []byte) error {
	return s.write(ctx, testbed.Registration(s.namespace, name, kubeconfig))
}

// registerAll registers what a kubeconfig leads to as often as n says.
func (s *scene) registerAll(ctx context.Context, n int, kubeconfig []byte) error {
	for i := range n {
		if err := s.register(ctx, "t"+strconv.Itoa(i), kubeconfig); err != nil {
			return err
		}
	}
	return nil
}

// manage has objects applied to a registered target.
func (s *scene) manage(ctx context.Context, target, name string, objects ...string) error {
	if err := s.write(ctx, testbed.Content(s.namespace, name, "objects.yaml", objects...)); err != nil {
		return err
	}
	return s.write(ctx, s.resource(target, name, name))
}

// resource is a ManagedResource for a registered target that refers to Secrets.
func (s *scene) resource(target, name string, secrets ...string) *resourcesv1alpha1.ManagedResource {
	mr := testbed.ManagedResource(s.namespace, name, secrets...)
	mr.Labels = map[string]string{hubv1alpha1.ClusterNameLabel: target}
	return mr
}

// target starts a server and registers it, with a ManagedResource if it is to be managed.
func (s *scene) target(ctx context.Context, name string, managed bool, o serverOptions) error {
	srv, err := s.server(o) //nolint:contextcheck // it is closed
	if err != nil {
		return err
	}
	if managed {
		if err := s.manage(ctx, name, name+"-objects", managedObjects(10)...); err != nil {
			return err
		}
	}
	return s.register(ctx, name, srv.kubeconfig())
}

// place registers a server with a hostile answer at a place, and has the hub ask for it.
func (s *scene) place(ctx context.Context, name string, p place, managed bool, o serverOptions) error {
	o.pages = p.pages
	if err := s.target(ctx, name, managed, o); err != nil || !p.leaving {
		return err
	}
	mr := s.resource(name, name+"-objects")
	what := "the objects that are to leave are applied"
	if err := s.Until(ctx, s.options.Patience, 50*time.Millisecond, what, func() (bool, error) {
		err := s.tenant.Get(ctx, client.ObjectKeyFromObject(mr), mr)
		applied := resourcesv1alpha1.GetCondition(mr.Status.Conditions, resourcesv1alpha1.ConditionResourcesApplied)
		return applied != nil && applied.Status == resourcesv1alpha1.ConditionTrue, err
	}); err != nil {
		return err
	}
	if err := s.tenant.Delete(ctx, mr); err != nil {
		return fmt.Errorf("the tenant deletes ManagedResource %s: %w", mr.Name, err)
	}
	return nil
}

// each calls f for all places.
func (s *scene) each(places []place, f func(int, place) error) error {
	for i, p := range places {
		if err := f(i, p); err != nil {
			return err
		}
	}
	return nil
}

// struck is how many hostile answers and connections there were.
func (s *scene) struck() (n int64) {
	for _, srv := range s.servers {
		n += srv.struck.Load()
	}
	for _, part := range s.parts {
		n += part.struck()
	}
	return n
}

// namespaces are all of the source that it has.
func (s *scene) namespaces() []string {
	all := append(slices.Clone(s.others), s.namespace)
	for _, part := range s.parts {
		all = append(all, part.namespaces()...)
	}
	return all
}

// end ends the servers.
func (s *scene) end() {
	for _, end := range s.ends {
		end()
	}
	for _, srv := range s.servers {
		srv.close()
	}
	for _, part := range s.parts {
		part.end()
	}
}

// remove deletes a namespace of the source with everything in it. It does not wait for the clusters.
func (r *run) remove(ctx context.Context, namespace string) error {
	in := client.InNamespace(namespace)
	err := r.Source.Client.DeleteAllOf(ctx, &corev1.Secret{}, in)
	if err == nil {
		err = r.Source.Client.DeleteAllOf(ctx, &resourcesv1alpha1.ManagedResource{}, in)
	}
	list := &resourcesv1alpha1.ManagedResourceList{}
	if err == nil {
		err = r.Source.Client.List(ctx, list, in)
	}
	for i := range list.Items {
		released := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
		err = errors.Join(err, client.IgnoreNotFound(r.Source.Client.Patch(ctx, &list.Items[i], released)))
	}
	if err == nil {
		err = r.Source.Client.DeleteAllOf(ctx, &hubv1alpha1.TargetCluster{}, in)
	}
	if err == nil {
		err = r.Writers.DeleteNamespace(ctx, namespace)
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting namespace %s: %w", namespace, err)
	}
	return nil
}

// hangs waits until the client gives up, or the server ends.
func hangs(_ http.ResponseWriter, r *http.Request) bool {
	<-r.Context().Done()
	return true
}

// slow waits before a request is answered. It returns false if the client has left meanwhile.
func slow(r *http.Request, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.Context().Done():
		return false
	}
}

// isVersion reports whether a request is for the version of a server.
func isVersion(r *http.Request) bool { return r.URL.Path == "/version" }
