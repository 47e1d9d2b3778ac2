// Package vulncheck looks for vulnerabilities that are known of what the commands use: run.sh runs govulncheck, in the version of
// hack/tools/govulncheck, and "make vulncheck" runs that. It ends
//
//   - with 0 if the database knows none that is called,
//   - with 3 if it knows some,
//   - with 4 if the database cannot be read. Then nothing is known, and it says so. With --if-reachable it ends with 0 in that
//     case, having said it all the same: a build without access to the internet must not fail, and must not claim anything.
//
// GOVULNDB is the URL of the database, as with Go's own tools: a copy of it can be a folder, file:///path.
package vulncheck
