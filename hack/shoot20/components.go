package shoot20

import "strings"

// component is what one ManagedResource holds.
type component struct {
	// name of the ManagedResource; the objects are named after it, without the prefix of all.
	name, namespace string
	// objects are "kind" or "kind:suffix"; the suffix is part of the object's name. Bindings bind the role of the same suffix to
	// the component's first ServiceAccount.
	objects string
}

func (c component) app() string { return strings.TrimPrefix(c.name, prefix) }

const prefix = "shoot-core-"

// definitionsName is the ManagedResource of the definitions. It is the same everywhere, so that it is compressed once.
const definitionsName = prefix + "definitions"

const (
	system     = "kube-system"
	monitoring = "shoot-monitoring"
	ingress    = "shoot-ingress"
	storage    = "shoot-storage"
)

// components are the 20 ManagedResources. Each has 15 objects.
var components = []component{
	{definitionsName, system, `definition:autoscaler definition:policy definition:agent clusterrole:autoscaler-view clusterrole:autoscaler-edit
		clusterrole:policy-view clusterrole:policy-edit clusterrole:agent-view clusterrole:agent-edit clusterrole account clusterrolebinding
		priority config secret`},
	{prefix + "system", system, `namespace:` + monitoring + ` namespace:` + ingress + ` namespace:` + storage + ` account:default priority:600
		clusterrole:admin clusterrolebinding:admin clusterrole:node clusterrolebinding:node config:shoot-info quota limits policy:deny-all
		policy:allow-dns apiservice`},
	{prefix + "kube-proxy", system, `account daemonset:worker-a daemonset:worker-b config:cleanup config:conntrack config:worker-a config:worker-b secret clusterrole
		clusterrolebinding service autoscaler:worker-a autoscaler:worker-b policy large:rules`},
	{prefix + "coredns", system, `account clusterrole clusterrolebinding config config:custom deployment service budget policy policy:upstream
		autoscaler account:autoscaler deployment:autoscaler role:autoscaler rolebinding:autoscaler`},
	{prefix + "node-local-dns", system, `account daemonset config config:custom service service:upstream policy autoscaler role rolebinding secret
		clusterrole clusterrolebinding large:zones config:probe`},
	{prefix + "metrics-server", system, `account deployment service budget autoscaler clusterrole clusterrolebinding clusterrole:reader clusterrolebinding:reader
		role rolebinding secret secret:ca policy config`},
	{prefix + "node-exporter", monitoring, `account daemonset service autoscaler policy config large:dashboard large:rules secret role rolebinding
		clusterrole clusterrolebinding budget config:textfiles`},
	{prefix + "node-problem-detector", system, `account daemonset autoscaler config:kernel config:docker config:systemd large:rules clusterrole clusterrolebinding
		service policy role rolebinding secret config`},
	{prefix + "vpn-shoot", system, `account deployment service budget autoscaler secret:client secret:tls secret:ca config policy policy:from-seed role rolebinding
		clusterrole clusterrolebinding`},
	{prefix + "apiserver-proxy", system, `account daemonset service config config:envoy large:admission policy autoscaler mutating secret role rolebinding clusterrole
		clusterrolebinding budget`},
	{prefix + "blackbox-exporter", monitoring, `account deployment service budget autoscaler config config:targets large:dashboard large:rules policy secret role
		rolebinding clusterrole clusterrolebinding`},
	{prefix + "kube-state-metrics", monitoring, `account deployment service budget autoscaler clusterrole clusterrolebinding large:dashboard large:rules config policy
		role rolebinding secret agent`},
	{prefix + "network", system, `account account:controller clusterrole clusterrolebinding clusterrole:controller clusterrolebinding:controller config large:cni
		daemonset deployment:controller policyrule:default policyrule:metadata budget:controller autoscaler service`},
	{prefix + "cloud-controller", system, `account clusterrole clusterrolebinding clusterrole:nodes clusterrolebinding:nodes role rolebinding secret config service policy
		role:leases rolebinding:leases large:dashboard config:routes`},
	{prefix + "csi-driver", storage, `driver storageclass:standard storageclass:fast account:node account:controller clusterrole:node clusterrolebinding:node
		clusterrole:controller clusterrolebinding:controller daemonset:node deployment:controller secret config budget:controller autoscaler`},
	{prefix + "cert-management", system, `account deployment clusterrole clusterrolebinding role rolebinding secret:issuer secret:tls config service validating
		policy autoscaler budget agent`},
	{prefix + "dns-service", system, `account deployment clusterrole clusterrolebinding role rolebinding secret:provider config service policy autoscaler budget
		large:zones agent secret:tls`},
	{prefix + "ingress-nginx", ingress, `account deployment deployment:backend service service:backend ingressclass config config:tcp clusterrole clusterrolebinding role
		rolebinding policy budget secret`},
	{prefix + "event-logger", monitoring, `account statefulset service config large:parsers secret role rolebinding clusterrole clusterrolebinding policy budget
		autoscaler agent policyrule`},
	{prefix + "dashboard", monitoring, `account deployment deployment:scraper service service:scraper secret:certs secret:csrf secret:keys config role rolebinding
		clusterrole clusterrolebinding policy budget`},
}
