// Package tools runs programs that the modules in the folders beside it pin, for tests that need them: nothing has to
// be installed, and nothing else is compiled with their requirements.
//
// # Trade-offs
//
// The first test that needs a program builds it, which takes seconds for jq and minutes for Helm. The executable then
// stays in the cache of Go.
package tools
