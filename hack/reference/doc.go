// Command reference generates pages of the documentation. "make generate" calls it in the root of the repository.
//
//	reference DIRECTORY
//
// The directory is docs. Those pages of docs/reference that follow from the code are written: of the API (package
// apidoc reads the comments of the types), of metrics (from their definitions), and of trellisctl (from its tree of
// commands). So is the index of the tests that cover each statement of docs/compatibility (package statements).
//
// The tests of this package hold all pages against the code, those that people write included: links lead somewhere,
// keys, conditions, tests and files that are named exist, no page is missing from the index, and the words are those of
// the field.
//
// # Trade-offs
//
// The pages of metrics and trellisctl need the compiled code, so a generator has to build both commands. In return
// they cannot say anything else than /metrics and --help.
package main
