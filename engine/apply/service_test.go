package apply_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func serviceWith(ns, spec, ports string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Service\nmetadata: {namespace: %s, name: web}\nspec: {%s ports: [%s]}\n", ns, spec, ports)
}

// countingClient counts reads.
type countingClient struct {
	client.Client
	gets int
}

func (c *countingClient) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	c.gets++
	return c.Client.Get(ctx, key, obj, opts...)
}

func TestMR29Services(t *testing.T) {
	const http = "{name: http, port: 80}"
	// The API server assigns addresses below 10.96.1.0 and ports below 30086 only on request: other tests of this server
	// get theirs from the rest.
	for name, c := range map[string]struct {
		first, firstPorts string
		change            string
		now, nowPorts     string
		same              []string // fields that stay as they were before the last apply
		want              kept
	}{
		"ClusterIP with other ports": {firstPorts: http, nowPorts: "{name: http, port: 81}",
			same: []string{"spec|clusterIP"}, want: kept{"spec|ports|0|port": 81, "spec|ports|1": nil}},
		"ClusterIP of its own dropped": {first: "clusterIP: 10.96.0.79,", firstPorts: http, nowPorts: http,
			same: []string{"spec|clusterIP"}},
		"headless that is not said any longer": {first: "clusterIP: None,", firstPorts: http, nowPorts: http,
			want: kept{"spec|clusterIP": "None"}},
		"ClusterIP to NodePort":                      {firstPorts: http, now: "type: NodePort,", nowPorts: http, same: []string{"spec|clusterIP"}, want: kept{"spec|type": "NodePort"}},
		"ClusterIP to ExternalName":                  {firstPorts: http, now: "type: ExternalName, externalName: a.example.com,", nowPorts: http, want: kept{"spec|clusterIP": nil}},
		"ExternalName to ClusterIP with an address":  {first: "type: ExternalName, externalName: a.example.com,", firstPorts: http, now: "clusterIP: 10.96.0.80,", nowPorts: http, want: kept{"spec|clusterIP": "10.96.0.80", "spec|externalName": nil}},
		"ExternalName to LoadBalancer":               {first: "type: ExternalName, externalName: a.example.com,", firstPorts: http, now: "type: LoadBalancer,", nowPorts: http, want: kept{"spec|type": "LoadBalancer"}},
		"NodePort whose port moves":                  {first: "type: NodePort,", firstPorts: http, now: "type: NodePort,", nowPorts: "{name: http, port: 81}", same: []string{"spec|ports|0|nodePort"}, want: kept{"spec|ports|0|port": 81, "spec|ports|1": nil}},
		"NodePort whose port is renamed":             {first: "type: NodePort,", firstPorts: http, now: "type: NodePort,", nowPorts: "{name: web, port: 80}", same: []string{"spec|ports|0|nodePort"}, want: kept{"spec|ports|0|name": "web"}},
		"NodePort of its own that is dropped":        {first: "type: NodePort,", firstPorts: "{name: http, port: 80, nodePort: 30077}", now: "type: NodePort,", nowPorts: http, want: kept{"spec|ports|0|nodePort": 30077}},
		"NodePort with two protocols":                {first: "type: NodePort,", firstPorts: "{name: a, port: 53}, {name: b, port: 53, protocol: UDP}", now: "type: NodePort,", nowPorts: "{name: a, port: 53}, {name: b, port: 53, protocol: UDP}", same: []string{"spec|ports|0|nodePort", "spec|ports|1|nodePort"}},
		"LoadBalancer to NodePort":                   {first: "type: LoadBalancer,", firstPorts: http, now: "type: NodePort,", nowPorts: http, same: []string{"spec|clusterIP", "spec|ports|0|nodePort"}},
		"LoadBalancer to ClusterIP":                  {first: "type: LoadBalancer,", firstPorts: http, nowPorts: http, same: []string{"spec|clusterIP"}, want: kept{"spec|ports|0|nodePort": nil}},
		"LoadBalancer with an address of others":     {first: "type: LoadBalancer,", firstPorts: http, change: `{"spec":{"loadBalancerIP":"192.0.2.7"}}`, now: "type: LoadBalancer,", nowPorts: http, want: kept{"spec|loadBalancerIP": "192.0.2.7"}},
		"LoadBalancer whose address is dropped":      {first: "type: LoadBalancer, loadBalancerIP: 192.0.2.8,", firstPorts: http, now: "type: LoadBalancer,", nowPorts: http, want: kept{"spec|loadBalancerIP": "192.0.2.8"}},
		"LoadBalancer with another address":          {first: "type: LoadBalancer, loadBalancerIP: 192.0.2.8,", firstPorts: http, now: "type: LoadBalancer, loadBalancerIP: 192.0.2.9,", nowPorts: http, want: kept{"spec|loadBalancerIP": "192.0.2.9"}},
		"LoadBalancer with a health check":           {first: "type: LoadBalancer, externalTrafficPolicy: Local,", firstPorts: http, now: "type: LoadBalancer, externalTrafficPolicy: Local,", nowPorts: "{name: http, port: 81}", same: []string{"spec|healthCheckNodePort", "spec|ports|0|nodePort"}},
		"LoadBalancer whose health check is dropped": {first: "type: LoadBalancer, externalTrafficPolicy: Local, healthCheckNodePort: 30078,", firstPorts: http, now: "type: LoadBalancer, externalTrafficPolicy: Local,", nowPorts: http, want: kept{"spec|healthCheckNodePort": 30078}},
		"LoadBalancer without local traffic":         {first: "type: LoadBalancer, externalTrafficPolicy: Local,", firstPorts: http, now: "type: LoadBalancer,", nowPorts: http, want: kept{"spec|healthCheckNodePort": nil}},
	} {
		for owner, create := range map[string]func(t *testing.T, text string) types.UID{
			"ours": func(t *testing.T, text string) types.UID { return run1(t, text).UID },
			"adopted": func(t *testing.T, text string) types.UID {
				obj := manifest(t, text)
				NewWithT(t).Expect(cluster.Client.Create(t.Context(), obj, client.FieldOwner("gardener-resource-manager"))).To(Succeed())
				return obj.GetUID()
			},
		} {
			t.Run(name+", "+owner, func(t *testing.T) {
				g := NewWithT(t)
				ns := namespace(t)
				uid := create(t, serviceWith(ns, c.first, c.firstPorts))
				obj := live(t, manifest(t, serviceWith(ns, c.first, c.firstPorts)))
				if c.change != "" {
					change(t, obj, "someone", c.change)
				}
				want := kept{}
				for k, v := range c.want {
					want[k] = v
				}
				for _, path := range c.same {
					want[path] = find(live(t, obj).Object, path)
					g.Expect(want[path]).NotTo(BeNil())
				}
				for range 2 {
					out := run1(t, serviceWith(ns, c.now, c.nowPorts))
					g.Expect(out.Err).NotTo(HaveOccurred())
					g.Expect(out.UID).To(Equal(uid))
					expectKept(g, live(t, obj), want)
				}
				g.Expect(cluster.Client.Delete(t.Context(), obj)).To(Succeed()) // addresses are few
			})
		}
	}
}

// The address of a Service is never silently another one than that of the manifest: the server's refusal is reported,
// or the Service makes room for a new one.
func TestChangedClusterIPIsNotIgnored(t *testing.T) {
	const http = "{name: http, port: 80}"
	for name, c := range map[string]struct{ first, now string }{
		"of the server's to one of its own": {"", "clusterIP: 10.96.0.81,"},
		"of its own to another one":         {"clusterIP: 10.96.0.82,", "clusterIP: 10.96.0.83,"},
		"to none":                           {"clusterIP: 10.96.0.84,", "clusterIP: None,"},
		"of none":                           {"clusterIP: None,", "clusterIP: 10.96.0.85,"},
	} {
		for _, recreate := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, may be recreated: %t", name, recreate), func(t *testing.T) {
				g := NewWithT(t)
				ns := namespace(t)
				service := func(spec string) string {
					text := serviceWith(ns, spec, http)
					if recreate {
						text = strings.Replace(text, "metadata: {", "metadata: {annotations: {"+onInvalid+"}, ", 1)
					}
					return text
				}
				first := run1(t, service(c.first))
				g.Expect(first.Err).NotTo(HaveOccurred())
				obj := manifest(t, service(c.now))
				before := find(live(t, obj).Object, "spec|clusterIP")
				out := run1(t, service(c.now))
				if !recreate {
					g.Expect(out.Err).To(MatchError(ContainSubstring("is invalid")))
					expectKept(g, live(t, obj), kept{"spec|clusterIP": before})
				} else {
					g.Expect(out.Err).NotTo(HaveOccurred())
					g.Expect(out.Recreated).To(BeTrue())
					expectKept(g, live(t, obj), kept{"spec|clusterIP": find(obj.Object, "spec|clusterIP")})
				}
				g.Expect(cluster.Client.Delete(t.Context(), obj)).To(Succeed()) // addresses are few
			})
		}
	}
}
