package main

import (
	"path/filepath"

	"github.com/trellis-hub/trellis/hack/reference/statements"
)

// testsFile is the index of tests, in the folder of the documentation.
var testsFile = filepath.Join("compatibility", statements.Generated)

// testsPage is the page of the tests that cover each statement of docs/compatibility.
func testsPage(root string) ([]byte, error) {
	pages, err := statements.Read(filepath.Join(root, "docs", "compatibility"))
	if err != nil {
		return nil, err
	}
	// The generator's own tests have examples of statements that do not exist.
	sources, err := statements.Scan(root, pages, "statements")
	if err != nil {
		return nil, err
	}
	return statements.Index(pages, sources)
}
