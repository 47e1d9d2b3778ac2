// Package twins has two control planes that are targets of one cluster cache, for tests of controllers in targets that
// leave out the rest of a hub. All calls to the targets are recorded, and a test may answer them itself.
//
// A package calls Main in its TestMain, and Run starts its controller in each test. Objects that Create makes are deleted
// when their test ends; registrations stay for all tests. Tests of one package see the same objects, so they do not run
// in parallel.
package twins
