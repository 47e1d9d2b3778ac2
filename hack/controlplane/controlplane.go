package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const (
	// startTimeout bounds a start whose context has no deadline. It leaves room for a machine that compiles meanwhile.
	startTimeout = 3 * time.Minute
	// terminationGrace is what a component gets to end by itself.
	terminationGrace = 10 * time.Second
	// pollInterval is how often a state is read that cannot be watched.
	pollInterval = 50 * time.Millisecond
	// checkTimeout bounds each time.
	checkTimeout = 2 * time.Second
	// portAttempts is how often another port is chosen after another process took the last one.
	portAttempts = 5

	serviceRange = "10.96.0.0/16"
	issuer       = "https://kubernetes.default.svc.cluster.local"
	// etcdURL is a socket in the directory of the control plane, in which all components run.
	etcdURL = "unix://etcd.sock:0"
)

// errPortTaken says that another process was faster.
var errPortTaken = errors.New("another process has taken its port")

// Options say what a control plane consists of. The zero value is etcd and kube-apiserver.
type Options struct {
	// Name appears in kubeconfigs, directories and errors. Default: "test".
	Name string
	// Dir is where data, certificates and logs go; it must not exist or be empty, and stays when the control plane
	// is stopped. Default: a temporary directory, which does not.
	Dir string
	// ControllerManager starts kube-controller-manager.
	ControllerManager bool
	// Scheduler starts kube-scheduler.
	Scheduler bool
	// Kwok starts kwok, which makes every Node ready and runs every pod bound to one. More than zero Nodes imply it.
	Kwok bool
	// Nodes is how many Nodes are created, named node-0 and so on.
	Nodes int
	// Audit keeps a log of all requests, to be read with ControlPlane.AuditEntries.
	Audit bool
	// ExtraAPIServerArgs are appended to the arguments of kube-apiserver, where the last one of a kind wins. With
	// --authorization-config=, RBAC is on only if that has it.
	ExtraAPIServerArgs []string
	// ExtraEtcdArgs are the same for etcd, which by default refuses to grow beyond 2 GiB.
	ExtraEtcdArgs []string
	// Share is for control planes beside which something else is measured. The zero value: they take what they need.
	Share Share
}

// Share says what each component takes of a machine that it shares.
type Share struct {
	// HeapGrowth is by how many percent the heap grows between two collections. Zero: 100. More takes memory, and leaves processors to others.
	HeapGrowth int
	// MemoryLimit is how many bytes the process may take before it collects more often than that. Zero: none.
	MemoryLimit int64
	// TraceCollections has each component write down its collections, to be read with ControlPlane.Collections.
	TraceCollections bool
}

// ControlPlane is a running control plane. Its methods may be called from several goroutines.
type ControlPlane struct {
	options Options
	dir     string
	guard   *guard
	pki     *pki
	port    int

	// restConfig and kubeconfig are the administrator's.
	restConfig *rest.Config
	kubeconfig []byte

	audit audit

	// mu serialises what starts and stops processes.
	mu        sync.Mutex
	processes map[string]*process
	stopped   bool
}

// Start starts a control plane and returns when it is of use: the API server is ready, the namespaces default and
// kube-system exist, so do the service account "default" if there is a controller manager, and all Nodes are Ready. The
// context bounds the start only. Who started a control plane must Stop it.
func Start(ctx context.Context, options Options) (*ControlPlane, error) {
	if options.Name = safeName(options.Name); options.Name == "" {
		options.Name = "test"
	}
	options.Kwok = options.Kwok || options.Nodes > 0
	ctx, cancel := withTimeout(ctx)
	defer cancel()

	cp := &ControlPlane{options: options, processes: map[string]*process{}}
	if err := cp.start(ctx); err != nil {
		cp.Stop()
		return nil, fmt.Errorf("controlplane: cannot start %s: %w", options.Name, err)
	}
	return cp, nil
}

func (cp *ControlPlane) start(ctx context.Context) error {
	if err := cp.prepareDir(); err != nil {
		return err
	}
	var err error
	if cp.pki, err = newPKI(cp.dir); err != nil {
		return err
	}
	if err := cp.startEtcd(ctx); err != nil {
		return err
	}
	if err := cp.startFirstAPIServer(ctx); err != nil {
		return err
	}
	return cp.startRest(ctx)
}

// prepareDir makes the directory and the guard that removes it.
func (cp *ControlPlane) prepareDir() (err error) {
	sweep()
	temporary := ""
	if cp.options.Dir == "" {
		if cp.dir, err = makeTempDir(cp.options.Name); err != nil {
			return err
		}
		temporary = cp.dir
	} else {
		if cp.dir, err = filepath.Abs(cp.options.Dir); err != nil {
			return err
		}
		if err := os.MkdirAll(cp.dir, 0o700); err != nil {
			return err
		}
		if entries, err := os.ReadDir(cp.dir); err != nil {
			return err
		} else if len(entries) > 0 {
			return fmt.Errorf("%s is not empty", cp.dir)
		}
	}
	cp.guard, err = startGuard(temporary)
	return err
}

func (cp *ControlPlane) startEtcd(ctx context.Context) error {
	etcd, err := cp.run(Etcd, append([]string{
		"--name=etcd", "--data-dir=" + etcdData, "--unsafe-no-fsync", "--log-level=warn",
		"--listen-client-urls=" + etcdURL, "--advertise-client-urls=" + etcdURL,
		"--listen-peer-urls=unix://peer.sock:0", "--initial-advertise-peer-urls=unix://peer.sock:0",
		"--initial-cluster=etcd=unix://peer.sock:0",
	}, cp.options.ExtraEtcdArgs...)...)
	if err != nil {
		return err
	}
	return wait(ctx, []*process{etcd}, "etcd to listen", func(context.Context) error {
		_, err := os.Stat(cp.etcdSocket())
		return err
	})
}

func (cp *ControlPlane) etcdSocket() string {
	return filepath.Join(cp.dir, strings.TrimPrefix(etcdURL, "unix://"))
}

// startFirstAPIServer starts the API server on a port that is its own from then on.
func (cp *ControlPlane) startFirstAPIServer(ctx context.Context) error {
	var err error
	for range portAttempts {
		if cp.port, err = FreePort(); err != nil {
			return err
		}
		if err = cp.prepareClients(); err != nil {
			return err
		}
		if err = cp.startAPIServer(ctx); !errors.Is(err, errPortTaken) {
			return err
		}
	}
	return err
}

func isAuthorizationConfig(arg string) bool { return strings.HasPrefix(arg, "--authorization-config=") }

func (cp *ControlPlane) startAPIServer(ctx context.Context) error {
	args := []string{
		"--etcd-servers=" + etcdURL,
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", cp.port),
		"--tls-cert-file=" + servingCert, "--tls-private-key-file=" + servingKey,
		"--client-ca-file=" + caCert,
		"--authorization-mode=RBAC", "--anonymous-auth=true", "--allow-privileged=true",
		"--service-account-issuer=" + issuer,
		"--service-account-key-file=" + serviceAccountPublicKey,
		"--service-account-signing-key-file=" + serviceAccountKey,
		"--service-cluster-ip-range=" + serviceRange,
		"--enable-aggregator-routing=true",
		"--requestheader-client-ca-file=" + frontProxyCACert, "--requestheader-allowed-names=" + frontProxyName,
		"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + frontProxyCert, "--proxy-client-key-file=" + frontProxyKey,
		// A loopback address is no endpoint for the service "kubernetes", and no pod is there to use it.
		"--endpoint-reconciler-type=none",
		"--profiling=false",
		// Without it an orderly end waits for clients to end their watches.
		"--shutdown-watch-termination-grace-period=1s",
	}
	if slices.ContainsFunc(cp.options.ExtraAPIServerArgs, isAuthorizationConfig) {
		args = slices.DeleteFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "--authorization-mode=") })
	}
	if !cp.options.ControllerManager {
		// The first wants a service account for each pod, the second taints new nodes until the controller manager sees them ready.
		args = append(args, "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition")
	}
	if cp.options.Audit {
		// Blocking, so that no entry is lost when the server is killed; never rotated.
		args = append(args, "--audit-policy-file="+auditPolicyFile, "--audit-log-path="+auditFile,
			"--audit-log-mode=blocking", "--audit-log-maxsize=1000000")
	}
	server, err := cp.run(APIServer, append(args, cp.options.ExtraAPIServerArgs...)...)
	if err != nil {
		return err
	}
	err = cp.withClient(func(client kubernetes.Interface) error {
		return wait(ctx, []*process{server}, "the API server to become ready", func(ctx context.Context) error {
			return checkServing(ctx, client)
		})
	})
	if err != nil && server.ended() && strings.Contains(tail(server.log), "address already in use") {
		return errPortTaken
	}
	return err
}

// startRest starts what was asked for besides etcd and the API server.
func (cp *ControlPlane) startRest(ctx context.Context) error {
	var started []*process
	add := func(name string, args ...string) error {
		p, err := cp.run(name, args...)
		started = append(started, p)
		return err
	}
	if cp.options.ControllerManager {
		if err := add(ControllerManager,
			"--kubeconfig="+ControllerManager+kubeconfigSuffix, "--secure-port=0", "--leader-elect=false",
			"--use-service-account-credentials=true", "--service-account-private-key-file="+serviceAccountKey,
			"--root-ca-file="+caCert, "--cluster-signing-cert-file="+caCert, "--cluster-signing-key-file="+caKey,
			"--kube-api-qps=200", "--kube-api-burst=400",
		); err != nil {
			return err
		}
	}
	if cp.options.Scheduler {
		if err := add(Scheduler,
			"--kubeconfig="+Scheduler+kubeconfigSuffix, "--secure-port=0", "--leader-elect=false",
			"--kube-api-qps=200", "--kube-api-burst=400",
		); err != nil {
			return err
		}
	}
	if cp.options.Kwok {
		stages, err := findAsset(stagesFile)
		if err != nil {
			return err
		}
		if err := add(Kwok, "--kubeconfig="+Kwok+kubeconfigSuffix, "--config="+stages,
			"--manage-all-nodes=true", "--node-lease-duration-seconds=40",
		); err != nil {
			return err
		}
	}
	return cp.withClient(func(client kubernetes.Interface) error {
		if err := createNodes(ctx, client, cp.options.Nodes); err != nil {
			return err
		}
		if cp.options.ControllerManager {
			if err := wait(ctx, started, "the default service account", func(ctx context.Context) error {
				return checkServiceAccount(ctx, client)
			}); err != nil {
				return err
			}
		}
		return wait(ctx, started, "the nodes to become ready", func(ctx context.Context) error {
			return checkNodes(ctx, client, cp.options.Nodes)
		})
	})
}

// run starts a component and remembers it.
func (cp *ControlPlane) run(name string, args ...string) (*process, error) {
	p, err := startProcess(cp.guard, cp.dir, cp.options.Share, name, args...)
	if err == nil {
		cp.processes[name] = p
	}
	return p, err
}

// Stop ends all components at once and removes the directory unless it was given. Stopping twice is fine.
func (cp *ControlPlane) Stop() {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	if cp.stopped {
		return
	}
	cp.stopped = true
	if cp.guard != nil {
		cp.guard.killGroup()
	}
	for _, p := range cp.processes {
		<-p.done
	}
	if cp.dir != "" && cp.options.Dir == "" {
		_ = os.RemoveAll(cp.dir)
	}
}

// StopAPIServer ends the API server in an orderly way and returns when it is gone: connections to it are refused. Etcd keeps
// the data and stays up.
func (cp *ControlPlane) StopAPIServer() {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	cp.processes[APIServer].terminate(terminationGrace)
}

// KillAPIServer is StopAPIServer without a chance to say good-bye to clients. It works on a frozen one too.
func (cp *ControlPlane) KillAPIServer() {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	cp.processes[APIServer].kill()
}

// StartAPIServer starts the API server again, at the same address and with the same data and certificates, and returns when
// it is ready. It does nothing if it is running.
func (cp *ControlPlane) StartAPIServer(ctx context.Context) error {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	if cp.stopped {
		return fmt.Errorf("controlplane: %s has been stopped", cp.options.Name)
	}
	if !cp.processes[APIServer].ended() {
		return nil
	}
	ctx, cancel := withTimeout(ctx)
	defer cancel()
	if err := cp.startAPIServer(ctx); err != nil {
		return fmt.Errorf("controlplane: cannot restart the API server of %s: %w", cp.options.Name, err)
	}
	return nil
}

// Freeze suspends the API server: connections stay open or are still accepted by the kernel, and get no answer. To a
// client, that is a hanging server or a broken network.
func (cp *ControlPlane) Freeze() error { return cp.Suspend(APIServer) }

// Thaw lets a frozen API server continue.
func (cp *ControlPlane) Thaw() error { return cp.Resume(APIServer) }

// Host is the URL of the API server.
func (cp *ControlPlane) Host() string {
	return fmt.Sprintf("https://127.0.0.1:%d", cp.port)
}

// LogTail returns the end of the log of a component, which is one of the constants of this package.
func (cp *ControlPlane) LogTail(component string) string {
	return tail(logPath(cp.dir, component))
}

// withTimeout bounds a start unless the caller does.
func withTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, limited := ctx.Deadline(); limited {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, startTimeout)
}

// wait polls until the check succeeds, the context ends, or one of the processes does.
func wait(ctx context.Context, processes []*process, what string, check func(context.Context) error) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		err := checkOnce(ctx, check)
		if err == nil {
			return nil
		}
		for _, p := range processes {
			if p.ended() {
				return p.failure()
			}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			logs := make([]string, len(processes))
			for i, p := range processes {
				logs[i] = fmt.Sprintf("\nthe log of %s ends with:\n%s", p.name, tail(p.log))
			}
			slices.Sort(logs)
			return fmt.Errorf("gave up waiting for %s: %w%s", what, err, strings.Join(logs, ""))
		}
	}
}

// checkOnce bounds one check, which might be hanging on a server that is not ours.
func checkOnce(ctx context.Context, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	return check(ctx)
}
