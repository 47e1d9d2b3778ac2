package explain

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/clustercache/kubeconfig"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
	"github.com/trellis-hub/trellis/cmd/trellisctl/diagnosis"
	"github.com/trellis-hub/trellis/cmd/trellisctl/remote"
	"github.com/trellis-hub/trellis/controllers/targetcluster/settings"
)

// configKey is that of the configuration in the ConfigMap of the hub.
const configKey = "config.yaml"

// ReasonSwitchedOff is that of a controller that does not work in the target.
const ReasonSwitchedOff = "SwitchedOff"

// inquiry is what a controller is asked about.
type inquiry struct {
	*why
	*Answer
	source  *cli.Source
	subject cli.Subject
	cluster *hubv1alpha1.TargetCluster
	// heartbeat is that of the hub.
	heartbeat cli.Heartbeat
	// status is the target as the hub's controllers know it, all are those of its namespace, and controllers is what works
	// in each.
	status      clustercache.Status
	all         []clustercache.Status
	controllers func(clustercache.Status) hubv1alpha1.TargetControllers
	// target calls it.
	target client.Client
}

// inTarget asks a controller about something, unless it cannot do its work for a reason of the target.
func (w *why) inTarget(ctx context.Context, source *cli.Source, subject cli.Subject,
	ask func(context.Context, *inquiry) error) (*Answer, error) {
	key := subject.Key()
	i := &inquiry{why: w, source: source, subject: subject,
		Answer: &Answer{Kind: subject.Kind, Namespace: key.Namespace, Name: key.Name}}
	secret, err := i.accessSecret(ctx)
	if err != nil {
		return nil, err
	}
	wish := w.remote.Target
	if wish == "" && secret != nil {
		wish = secret.Labels[hubv1alpha1.ClusterNameLabel]
	}
	found, err := remote.Named(ctx, source, wish)
	if err != nil {
		return nil, err
	}
	i.cluster, i.Target = found.Cluster, found.String()
	if stopped, err := i.stopped(ctx); err != nil || stopped {
		return i.Answer, err
	}
	policy, err := w.remote.Policy()
	if err != nil {
		return nil, err
	}
	connection, err := remote.Open(ctx, source, found, w.remote.ConnectTimeout, policy)
	if err != nil {
		return nil, err
	}
	i.target = connection.Client
	if err := i.learn(ctx, policy); err != nil {
		return nil, err
	}
	return i.Answer, ask(ctx, i)
}

// accessSecret reads the access Secret that it is about; nil if it is about something else.
func (i *inquiry) accessSecret(ctx context.Context) (*corev1.Secret, error) {
	if i.subject.Kind != cli.KindAccess {
		return nil, nil
	}
	i.Namespace = i.source.Namespace
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: i.Namespace, Name: i.Name}
	if err := i.source.Get(ctx, key, secret); err != nil {
		return nil, missing(err, "Secret", key.String())
	}
	return secret, nil
}

// missing is an error of reading an object, which need not exist.
func missing(err error, kind, name string) error {
	if cli.ExitCode(err) == cli.ExitNotFound || client.IgnoreNotFound(err) == nil {
		return cli.NotFound("there is no %s %s", kind, name)
	}
	return fmt.Errorf("reading %s %s: %w", kind, name, err)
}

// stopped finds out whether no controller does anything in the target, and why.
func (i *inquiry) stopped(ctx context.Context) (bool, error) {
	f, err := i.beat(ctx, i.source, i.cluster.Namespace, i.cluster.Name)
	if err != nil {
		return false, err
	}
	f.Cluster, i.heartbeat = i.cluster, f.Heartbeat
	addRegistration(ctx, i.source, f)
	cause := diagnosis.OfControllers(f)
	if cause.Reason == "" {
		return false, nil
	}
	i.Cause = &cause
	return true, nil
}

// learn finds out what works in the targets of the namespace.
func (i *inquiry) learn(ctx context.Context, policy kubeconfig.Policy) error {
	registration, err := remote.Registration(ctx, i.source, i.cluster.Namespace, i.cluster.Name)
	if err != nil {
		return err
	}
	config, err := kubeconfig.FromSecret(registration, policy)
	if err != nil {
		return fmt.Errorf("reading the registration of %s: %w", i.Target, err)
	}
	here := &hubv1alpha1.TargetClusterList{}
	if err := i.source.List(ctx, here, client.InNamespace(i.cluster.Namespace)); err != nil {
		return fmt.Errorf("listing TargetClusters: %w", err)
	}
	clusters := map[clustercache.ClusterKey]*hubv1alpha1.TargetCluster{}
	for n := range here.Items {
		tc := &here.Items[n]
		secret := &metav1.PartialObjectMetadata{}
		secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
		secret.Namespace, secret.Name = tc.Namespace, remote.SecretName(tc.Name)
		if err := i.source.Get(ctx, client.ObjectKeyFromObject(secret), secret); err != nil {
			if client.IgnoreNotFound(err) == nil {
				continue // it is not registered
			}
			return fmt.Errorf("reading the registration of %s/%s: %w", tc.Namespace, tc.Name, err)
		}
		if !i.heartbeat.Registers(secret.Labels) {
			continue // the hub leaves it out
		}
		status := clustercache.Status{
			Cluster: client.ObjectKeyFromObject(tc), State: clustercache.StateConnected, Labels: secret.Labels,
			SecretName: secret.Name,
		}
		if tc.Name == i.cluster.Name {
			status.CA, status.ServiceAccount = config.CA, config.ServiceAccount()
			i.status = status
		}
		clusters[status.Cluster] = tc
		i.all = append(i.all, status)
	}
	classes := i.classes(ctx)
	i.controllers = func(status clustercache.Status) hubv1alpha1.TargetControllers {
		return settings.ControllersOf(classes(status), status, clusters[status.Cluster])
	}
	return nil
}

// classes are those of the configuration of the hub. If it cannot be read, each target has a class without controllers,
// so that only settings of TargetClusters count.
func (i *inquiry) classes(ctx context.Context) func(clustercache.Status) []configv1alpha1.Class {
	key := client.ObjectKey{Namespace: i.hub.Namespace, Name: i.hubConfig}
	stored := &corev1.ConfigMap{}
	err := i.source.Get(ctx, key, stored)
	if err == nil {
		var config *configv1alpha1.HubConfiguration
		if config, err = configv1alpha1.Load([]byte(stored.Data[configKey])); err == nil {
			return func(clustercache.Status) []configv1alpha1.Class { return config.Classes }
		}
	}
	i.detail("Settings", "those of the TargetCluster alone, since the configuration of the hub in ConfigMap %s cannot be "+
		"read: %s", key, cli.FirstLine(err.Error()))
	return func(status clustercache.Status) []configv1alpha1.Class {
		return []configv1alpha1.Class{{
			Name:   status.Labels[hubv1alpha1.ClassLabel],
			Target: configv1alpha1.ClassTarget{Type: configv1alpha1.TargetNamespace},
		}}
	}
}

func (i *inquiry) detail(name, format string, args ...any) {
	i.Details = append(i.Details, Detail{name, fmt.Sprintf(format, args...)})
}

func (i *inquiry) cause(reason, format string, args ...any) *diagnosis.Cause {
	i.Cause = &diagnosis.Cause{Reason: reason, Message: fmt.Sprintf(format, args...)}
	return i.Cause
}

// off is the cause if a controller does not work in the target.
func (i *inquiry) off(key, what string) {
	cause := i.cause(ReasonSwitchedOff, "%s is switched off in target %s: neither its class nor spec.controllers.%s of "+
		"the TargetCluster has it switched on, or its settings are faulty, as the conditions of the TargetCluster report.",
		what, i.Target, key)
	cause.Wished = true
	cause.Unblock = fmt.Sprintf(`If it is meant to work: kubectl -n %s patch targetcluster %s --type merge -p `+
		`'{"spec":{"controllers":{%q:{"enabled":true}}}}'`, i.cluster.Namespace, i.cluster.Name, key)
}

// warned takes the events about an object, which are additional information: if they cannot be read there are none.
func (i *inquiry) warned(ctx context.Context, from client.Reader, kind, namespace string, obj client.Object) {
	key := client.ObjectKey{Namespace: namespace, Name: obj.GetName()}
	if events, err := listIn(ctx, from, kind, key, obj.GetUID()); err == nil {
		i.Events = events
	}
}
