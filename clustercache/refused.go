package clustercache

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// refused is a registration beyond the quota of its namespace. It is small, because there may be very many of them.
type refused struct {
	secretName, resourceVersion string
	labels, annotations         map[string]string
	since                       time.Time
	message                     string
}

func (r *refused) status(key ClusterKey) Status {
	return Status{
		Cluster: key, State: StateRefused, Reason: ReasonQuotaExceeded, Message: r.message, Since: r.since,
		Labels: r.labels, Annotations: r.annotations,
		SecretName: r.secretName, SecretResourceVersion: r.resourceVersion,
	}
}

// refuse records a registration that is beyond the quota.
func (c *Cache) refuse(key ClusterKey, secret *corev1.Secret, message string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return
	}
	all := c.refused[key.Namespace]
	if all == nil {
		all = map[string]*refused{}
		c.refused[key.Namespace] = all
	}
	since := c.options.Clock.Now()
	if before := all[key.Name]; before != nil {
		since = before.since
	} else {
		c.options.Logger.Info("Registration is refused", "target", key, "reason", ReasonQuotaExceeded)
	}
	all[key.Name] = &refused{
		secretName: secret.Name, resourceVersion: secret.ResourceVersion,
		labels: secret.Labels, annotations: secret.Annotations,
		since: since, message: message,
	}
	c.hub.Publish(key, EventRegistered)
}

// unrefuse drops a registration that was beyond the quota, if there is one.
func (c *Cache) unrefuse(key ClusterKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, refused := c.refused[key.Namespace][key.Name]
	c.unrefuseLocked(key)
	if refused && c.targets[key] == nil {
		c.hub.Publish(key, EventGone)
	}
}

func (c *Cache) unrefuseLocked(key ClusterKey) {
	delete(c.refused[key.Namespace], key.Name)
	if len(c.refused[key.Namespace]) == 0 {
		delete(c.refused, key.Namespace)
	}
}

// refusal returns the status of a registration that is beyond the quota.
func (c *Cache) refusal(key ClusterKey) (Status, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if r := c.refused[key.Namespace][key.Name]; r != nil {
		return r.status(key), true
	}
	return Status{}, false
}

// refusals returns the states of the registrations of a namespace that are beyond the quota, or of all namespaces
// if it is empty.
func (c *Cache) refusals(namespace string) []Status {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var states []Status
	for name, all := range c.refused {
		if namespace != "" && namespace != name {
			continue
		}
		for target, r := range all {
			key := ClusterKey{Namespace: name, Name: target}
			if c.targets[key] == nil { // else its predecessor is still there
				states = append(states, r.status(key))
			}
		}
	}
	return states
}
