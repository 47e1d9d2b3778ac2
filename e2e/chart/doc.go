// Package chart holds the end-to-end tests of the Helm chart: Helm installs it into a real control plane, and a hub runs as a
// process with exactly what an installation would give it: the arguments, environment and files of the Deployment's container, a
// token of its ServiceAccount, and the probes that a kubelet would ask.
//
// The source has nodes that are simulated (kwok), a scheduler and a controller manager, and its namespace for the hub enforces
// the restricted standard of pod security. So the pods of the Deployment come up there as far as an API server can tell;
// what would run in them is the process of the test, since there are no containers here.
//
// testdata/trellis-0.1.0.tgz is the chart as it was before these tests (commit 5880aed), packaged: upgrades start there. It is
// a copy, since a clone need not have the history, and because it is a package that people upgrade from.
package chart
