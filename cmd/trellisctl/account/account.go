package account

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
	"github.com/trellis-hub/trellis/cmd/trellisctl/remote"
)

const (
	// managedByLabel marks what trellisctl creates in targets.
	managedByLabel = "app.kubernetes.io/managed-by"
	// UserPrefix begins the annotations of service accounts in targets that say which registrations use them, one for
	// each.
	UserPrefix = "used-by.trellisctl.hub.gardener.cloud/"
	// accountPrefix begins the usernames of service accounts.
	accountPrefix = "system:serviceaccount:"
	// ClusterAdmin is the ClusterRole that may do everything.
	ClusterAdmin = "cluster-admin"
	// TokenDuration is how long tokens are valid without a flag.
	TokenDuration = 720 * time.Hour
	// ShortestToken is the shortest duration that API servers accept.
	ShortestToken = 10 * time.Minute
)

// Flags say what service account is created for the hub in a target.
type Flags struct {
	// Create is true if the account is to be created.
	Create   bool
	account  string
	role     string
	duration time.Duration
}

// AddFlags adds them to a command.
func (f *Flags) AddFlags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.Create, "create-service-account", false,
		"Create a service account in the cluster and store a token of it, instead of the credential of the kubeconfig, "+
			"which is only used to create it.")
	cmd.Flags().StringVar(&f.account, "service-account", "kube-system/trellis",
		"NAMESPACE/NAME of the service account that is created.")
	cmd.Flags().StringVar(&f.role, "role", ClusterAdmin,
		"ClusterRole of the service account. It has to allow whatever ManagedResources contain.")
	cmd.Flags().DurationVar(&f.duration, "token-duration", TokenDuration,
		"How long the token is to be valid; \"cluster rotate\" renews it. The API server may issue a shorter one.")
}

// Account is a service account in a target.
type Account struct {
	client.ObjectKey
	// Role is the ClusterRole that it is bound to, Duration how long its tokens are requested for.
	Role     string
	Duration time.Duration
	// User is the registration that uses the account.
	User User
}

// User is a registration that uses the service account. The account has an annotation for each.
type User struct {
	// Key is that of the annotation, Text its value.
	Key, Text string
}

// UserOf is the registration of a name in the namespace of the source. The UID of the source distinguishes it from
// those of the same name in other sources, which may share the account.
func UserOf(ctx context.Context, source *cli.Source, name string) (User, error) {
	system := &corev1.Namespace{}
	if err := source.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, system); err != nil {
		return User{}, fmt.Errorf(
			"reading the namespace kube-system of the source cluster, whose UID is part of a user of a service account: %w", err)
	}
	registration := source.Namespace + "/" + name
	digest := sha256.Sum256([]byte(string(system.UID) + "/" + registration))
	return User{Key: UserPrefix + hex.EncodeToString(digest[:8]),
		Text: fmt.Sprintf("%s in the source cluster with UID %s", registration, system.UID)}, nil
}

// Parse reads the flags.
func (f *Flags) Parse() (*Account, error) {
	key, err := ParseKey(f.account)
	if err != nil {
		return nil, err
	}
	if err := CheckDuration(f.duration); err != nil {
		return nil, err
	}
	return &Account{ObjectKey: key, Role: f.role, Duration: f.duration}, nil
}

// CheckDuration returns an error for a duration of tokens that no API server issues.
func CheckDuration(duration time.Duration) error {
	if duration < ShortestToken {
		return cli.Usage("--token-duration %s: API servers issue no tokens for less than %s", duration, ShortestToken)
	}
	return nil
}

// ParseKey reads NAMESPACE/NAME.
func ParseKey(text string) (client.ObjectKey, error) {
	namespace, name, found := strings.Cut(text, "/")
	if !found || len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return client.ObjectKey{}, cli.Usage("--service-account %q: must be NAMESPACE/NAME", text)
	}
	return client.ObjectKey{Namespace: namespace, Name: name}, nil
}

// objectName is the name of the objects of the account in the cluster.
func (a *Account) objectName() string { return "trellisctl:" + a.Namespace + ":" + a.Name }

// IdentityRole is the ClusterRole that is added to a role other than cluster-admin.
func (a *Account) IdentityRole() string { return a.objectName() + ":identity" }

// objects are the service account and its rights. A role other than cluster-admin is extended by two rights that the
// hub and rotate need: to read kube-system, and to renew its own token.
func (a *Account) objects() []client.Object {
	name := a.objectName()
	head := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name,
			Labels: map[string]string{managedByLabel: cli.FieldManager}}
	}
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: a.Namespace, Name: a.Name}}
	role := func(kind, name string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}
	}
	objects := []client.Object{
		&corev1.ServiceAccount{ObjectMeta: head(a.Namespace, a.Name)},
		&rbacv1.ClusterRoleBinding{ObjectMeta: head("", name), Subjects: subjects,
			RoleRef: role("ClusterRole", a.Role)},
	}
	if a.Role == ClusterAdmin {
		return objects
	}
	return append(objects,
		&rbacv1.ClusterRole{ObjectMeta: head("", a.IdentityRole()), Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"namespaces"},
				ResourceNames: []string{metav1.NamespaceSystem},
				Verbs:         []string{"get"}},
		}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: head("", a.IdentityRole()), Subjects: subjects, RoleRef: role("ClusterRole", a.IdentityRole()),
		},
		&rbacv1.Role{ObjectMeta: head(a.Namespace, name+":token"), Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, ResourceNames: []string{a.Name},
				Verbs: []string{"create"}},
		}},
		&rbacv1.RoleBinding{ObjectMeta: head(a.Namespace, name+":token"), Subjects: subjects,
			RoleRef: role("Role", name+":token")},
	)
}

// Create creates missing objects of the service account and its rights, and records its user.
func (a *Account) Create(ctx context.Context, c client.Client) error {
	if a.Role != ClusterAdmin {
		if err := c.Get(ctx, client.ObjectKey{Name: a.Role}, &rbacv1.ClusterRole{}); err != nil {
			return fmt.Errorf("ClusterRole %s for the service account: %w", a.Role, err)
		}
	}
	for _, obj := range a.objects() {
		err := c.Create(ctx, obj)
		if apierrors.IsAlreadyExists(err) {
			err = a.sameRole(ctx, c, obj)
		}
		if err != nil {
			return fmt.Errorf("creating %s in the target: %w", cli.Name(c.Scheme(), obj), err)
		}
	}
	return a.Use(ctx, c)
}

// Use records the user of an existing service account.
func (a *Account) Use(ctx context.Context, c client.Client) error {
	_, err := a.note(ctx, c, &a.User.Text)
	return err
}

// note records the user of the service account, or removes it if the text is nil. It returns the updated account.
func (a *Account) note(ctx context.Context, c client.Client, text *string) (*corev1.ServiceAccount, error) {
	patch, err := json.Marshal(
		map[string]any{"metadata": map[string]any{"annotations": map[string]*string{a.User.Key: text}}})
	if err != nil {
		return nil, fmt.Errorf("encoding who uses service account %s: %w", a.ObjectKey, err)
	}
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace, Name: a.Name}}
	if err := c.Patch(ctx, sa, client.RawPatch(types.MergePatchType, patch),
		client.FieldOwner(cli.FieldManager)); err != nil {
		return nil, fmt.Errorf("noting on service account %s in the target who uses it: %w", a.ObjectKey, err)
	}
	return sa, nil
}

// users are the recorded users of a service account.
func users(sa *corev1.ServiceAccount) []string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(sa.Annotations)) {
		if strings.HasPrefix(key, UserPrefix) {
			all = append(all, sa.Annotations[key])
		}
	}
	return all
}

// sameRole returns an error if an existing binding has another role, since that cannot be changed.
func (a *Account) sameRole(ctx context.Context, c client.Client, obj client.Object) error {
	wanted, ok := obj.(*rbacv1.ClusterRoleBinding)
	if !ok {
		return nil
	}
	live := &rbacv1.ClusterRoleBinding{}
	if err := c.Get(ctx, client.ObjectKeyFromObject(obj), live); err != nil {
		return err
	}
	if live.RoleRef != wanted.RoleRef {
		return cli.Refused("it exists, and binds the service account to the ClusterRole %s instead of %s; delete it or "+
			"choose another --service-account", live.RoleRef.Name, wanted.RoleRef.Name)
	}
	return nil
}

// Remove removes the user from the service account. If it has no other user, Remove deletes the objects that create
// made, and no others; else it returns why the account stays. An account that does not have the user recorded may have
// other unrecorded users.
func (a *Account) Remove(ctx context.Context, c client.Client) (stays string, deleted []string, err error) {
	objects := (&Account{ObjectKey: a.ObjectKey}).objects() // with those that only some roles have
	noted := false
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if !noted {
			sa := &corev1.ServiceAccount{}
			if err := c.Get(ctx, a.ObjectKey, sa); apierrors.IsNotFound(err) {
				return nil
			} else if err != nil {
				return fmt.Errorf("reading service account %s in the target: %w", a.ObjectKey, err)
			}
			if _, noted = sa.Annotations[a.User.Key]; !noted {
				stays = "it does not note this registration, so other users are not known"
				return nil
			}
		}
		sa, err := a.note(ctx, c, nil)
		if err != nil {
			return client.IgnoreNotFound(err)
		}
		if others := users(sa); len(others) > 0 {
			stays = "others use it: " + strings.Join(others, ", ")
			return nil
		}
		if sa.Labels[managedByLabel] != cli.FieldManager {
			return nil
		}
		// With its version: it stays if another user was recorded meanwhile.
		if err := client.IgnoreNotFound(c.Delete(
			ctx, sa, client.Preconditions{UID: &sa.UID, ResourceVersion: &sa.ResourceVersion})); err != nil {
			return fmt.Errorf("deleting service account %s in the target: %w", a.ObjectKey, err)
		}
		deleted = append(deleted, cli.Name(c.Scheme(), sa))
		return nil
	})
	if err != nil || stays != "" {
		return stays, nil, err
	}
	for _, obj := range objects[1:] { // its rights
		name := cli.Name(c.Scheme(), obj)
		if err := c.Get(ctx, client.ObjectKeyFromObject(obj), obj); apierrors.IsNotFound(err) {
			continue
		} else if err != nil {
			return "", deleted, fmt.Errorf("reading %s in the target: %w", name, err)
		}
		if obj.GetLabels()[managedByLabel] != cli.FieldManager {
			continue
		}
		if err := client.IgnoreNotFound(c.Delete(ctx, obj)); err != nil {
			return "", deleted, fmt.Errorf("deleting %s in the target: %w", name, err)
		}
		deleted = append(deleted, name)
	}
	return "", deleted, nil
}

// Roles are the roles that are bound to the service account in the whole cluster. It returns an error if they may not
// be listed.
func (a *Account) Roles(ctx context.Context, c client.Client) ([]string, error) {
	bindings := &rbacv1.ClusterRoleBindingList{}
	if err := c.List(ctx, bindings); err != nil {
		return nil, fmt.Errorf("listing ClusterRoleBindings in the target: %w", err)
	}
	groups := []string{"system:serviceaccounts", "system:serviceaccounts:" + a.Namespace}
	isAccount := func(s rbacv1.Subject) bool {
		return s.Kind == rbacv1.ServiceAccountKind && s.Namespace == a.Namespace && s.Name == a.Name ||
			s.Kind == rbacv1.UserKind && s.Name == a.username() ||
			s.Kind == rbacv1.GroupKind && slices.Contains(groups, s.Name)
	}
	roles := map[string]bool{}
	for i := range bindings.Items {
		if slices.ContainsFunc(bindings.Items[i].Subjects, isAccount) {
			roles[bindings.Items[i].RoleRef.Name] = true
		}
	}
	return slices.Sorted(maps.Keys(roles)), nil
}

// username is the username of the service account in its cluster.
func (a *Account) username() string { return accountPrefix + a.Namespace + ":" + a.Name }

// Of returns the service account of a credential, as reported by the target; false if it has none.
func Of(ctx context.Context, c client.Client) (client.ObjectKey, bool, error) {
	review := &authenticationv1.SelfSubjectReview{}
	if err := c.Create(ctx, review); err != nil {
		return client.ObjectKey{}, false, fmt.Errorf("asking the target whose credential it is: %w", err)
	}
	name, isAccount := strings.CutPrefix(review.Status.UserInfo.Username, accountPrefix)
	key, err := ParseKey(strings.Replace(name, ":", "/", 1))
	return key, isAccount && err == nil, nil
}

// token requests a token from the API server.
func (a *Account) token(ctx context.Context, c client.Client) (token string, expires time.Time, err error) {
	seconds := int64(a.Duration / time.Second)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace, Name: a.Name}}
	if err := c.SubResource("token").Create(ctx, sa, request); err != nil {
		return "", time.Time{}, fmt.Errorf("requesting a token of service account %s: %w", a.ObjectKey, err)
	}
	return request.Status.Token, request.Status.ExpirationTimestamp.Time, nil
}

// Kubeconfig replaces the credential of a kubeconfig by a new token of the service account.
func (a *Account) Kubeconfig(ctx context.Context, env *cli.Env, admin *remote.Kubeconfig, c client.Client) (
	*remote.Kubeconfig, error) {
	token, expires, err := a.token(ctx, c)
	if err != nil {
		return nil, err
	}
	// The duration began when the server issued it, a moment ago.
	if given := expires.Sub(env.Clock.Now()); given < a.Duration-time.Minute {
		env.Warn("the cluster issues tokens for %s at most: renew it before it ends", given.Round(time.Minute))
	}
	return admin.WithToken(a.Name, token), nil
}
