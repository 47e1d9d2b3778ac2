// Package controlplane starts and stops real Kubernetes control planes on this machine, without containers. Tests, the
// demo, the end-to-end tests and the benchmarks all use it, so that what they show was shown on a real API server.
//
//	func TestSomething(t *testing.T) {
//		g := NewWithT(t)
//		cp := controlplane.StartForTest(t, controlplane.Options{})
//		c, err := client.New(cp.RESTConfig(), client.Options{})
//		...
//	}
//
// A package whose tests share one control plane starts it in TestMain:
//
//	func TestMain(m *testing.M) {
//		var err error
//		if source, err = controlplane.Start(context.Background(), controlplane.Options{Name: "source"}); err != nil {
//			fmt.Fprintln(os.Stderr, err)
//			os.Exit(1)
//		}
//		code := m.Run()
//		source.Stop()
//		os.Exit(code)
//	}
//
// # How it works
//
// A control plane is etcd and kube-apiserver; on request also kube-controller-manager, kube-scheduler and kwok, which plays
// the kubelets of fake nodes: with all of them a Deployment becomes available. The binaries come from "make kube", which
// puts them into bin/kube/<version>; $KUBEBUILDER_ASSETS, if set, wins for etcd and kube-apiserver.
//
// Everything that a client can observe is as in a real cluster: RBAC is on, certificates come from a certificate
// authority made for this control plane, service account tokens are signed and checked, the aggregation layer is set
// up. The components work with the identities that RBAC has roles for.
//
// Without a controller manager, no service accounts are created and no node loses its first taint; the admission
// plugins that need it are then off, so pods can be created and scheduled. The aggregated cluster roles view, edit and
// admin stay empty, there is no garbage collection, and a namespace that is being deleted keeps its objects.
//
// Only the API server listens on a port, on 127.0.0.1: etcd is reached through a socket in its directory, the other
// components serve nothing. The port (FreePort, for other servers of a test too) is taken from below the range from
// which the kernel gives ports to outgoing connections, so a stopped API server finds it free when it is started again.
// If another process takes it between the choice and the first start, another one is chosen.
//
// # Nothing stays behind
//
// Stop kills every process and removes the directory. A test binary may as well panic, time out or be killed, so each
// control plane has a guard: a small shell that leads the process group of all its components and reads from a pipe of which
// this process holds the other end. When this process dies, in whatever way, the kernel closes the pipe, the read returns,
// and the guard removes the directory and kills its group, frozen members included. Should something remain of a directory,
// the next Start anywhere on the machine sweeps it.
//
// # Trade-offs
//
//   - A parent-death signal would need no guard, but it is bound to the thread that forked, not to the process: it would
//     need a thread locked for the life of the program, which every leak check would then report, and exists on Linux only.
//   - etcd does not sync to disk. A control plane survives the death of its processes, not that of the machine.
//   - Stop kills instead of asking: an orderly end takes seconds, and what it would save is not needed.
//   - The audit log (Options.Audit) is written before a request ends, so that it is complete, and slows each one
//     down a little. It is off by default.
package controlplane
