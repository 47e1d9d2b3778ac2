// Package chart has the end-to-end tests of the Helm chart: Helm installs it into a real control plane, and a hub runs
// as a process with exactly the arguments, environment and files of the Deployment's container, a token of its
// ServiceAccount, and the probes of a kubelet.
//
// The source has nodes that are simulated (kwok), a scheduler and a controller manager, and its namespace for the hub
// enforces the restricted standard of pod security. So the pods of the Deployment become ready in the API server;
// instead of their containers, the process of the test runs.
//
// testdata/trellis-0.1.0.tgz is the chart as it was before these tests (commit 5880aed), packaged: upgrades start
// there. It is a copy, since a clone may lack the history, and since it is the package that users upgrade from.
package chart
