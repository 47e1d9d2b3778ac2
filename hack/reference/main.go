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

// write writes all pages to the folder of the documentation. The source is that of the working directory.
func write(docs string) error {
	pages, err := apiPages(".")
	if err != nil {
		return err
	}
	pages["metrics.md"] = metricsPage(app.Metrics())
	pages["trellisctl.md"] = trellisctl.Reference()
	for page, content := range pages {
		if err := writePage(filepath.Join(docs, "reference", page), content); err != nil {
			return err
		}
	}
	tests, err := testsPage(".")
	if err != nil {
		return err
	}
	return writePage(filepath.Join(docs, testsFile), tests)
}

func writePage(path string, content []byte) error {
	return os.WriteFile(path, content, 0o644) //nolint:gosec // a page of documentation
}
