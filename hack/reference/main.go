// Command reference generates pages of docs/reference from the code. "make generate" calls it in the root of the repository.
//
//	reference DIRECTORY
//
// The tests of this package hold all pages of the documentation against the code, those that people write included.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/trellis-hub/trellis/cmd/trellis/app"
	trellisctl "github.com/trellis-hub/trellis/cmd/trellisctl/app"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: reference DIRECTORY")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "reference:", err)
		os.Exit(1)
	}
}

func write(dir string) error {
	pages, err := apiPages(".")
	if err != nil {
		return err
	}
	pages["metrics.md"] = metricsPage(app.Metrics())
	pages["trellisctl.md"] = trellisctl.Reference()
	for page, content := range pages {
		if err := os.WriteFile(filepath.Join(dir, page), content, 0o644); err != nil { //nolint:gosec // a page of documentation
			return err
		}
	}
	return nil
}
