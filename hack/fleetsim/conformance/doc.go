// Package conformance holds one table of requests, and a test that sends all of them to a simulated API server and to a real
// kube-apiserver and compares the answers.
//
// # How it works
//
// A row of the table is a short script: requests by method, path, headers and body, in a namespace that is named after the
// row. Both servers run it step by step, and after every step the two answers must be the same: the status code, the headers
// that clients look at, and the whole body. Watches are steps as well: one opens a watch, later ones read events off it.
//
// There are no golden answers. The real server is the judge, in the same run; the row says nothing but the status code that
// it expects of each step, so that two servers that fail for the same silly reason do not pass. HTTP is spoken without
// client-go, so that no client's library mends what a server does wrong.
//
// What must differ between two servers is replaced before the comparison, in a way that keeps the relations: UIDs and
// resourceVersions are numbered in the order in which a row sees them (the same one again has the same number, and one that
// goes backwards says so), timestamps are given as distances from now, addresses and ports that a server chose become
// placeholders. See normal_test.go for all of it. Managed fields are compared in full.
//
// A step in which the simulator is meant to differ names its own status code and the reason. It fails when the two agree
// after all.
//
// # A new row
//
// Rows stand in the file of their topic. "go test ./hack/fleetsim/conformance -run '/rows/apply_creates'" runs one; where the
// two servers disagree, the difference is shown. A row that is wrong about the status code is reported with what the
// real server says.
//
// # Trade-offs
//
// The real server runs without a controller manager, as the simulator does. What controllers do (emptying a terminating
// namespace, garbage collection) is not in the table.
//
// With -compared=real the table runs against a second real server in the simulator's place. That tests the table itself: what
// then differs is not replaced as it should be.
package conformance
