package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: dashboards FOLDER")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "dashboards:", err)
		os.Exit(1)
	}
}

// write writes all dashboards of each flavour into a folder of its name, which has nothing else.
func write(parent string) error {
	for _, f := range []flavour{grafana, plutono} {
		folder := filepath.Join(parent, string(f))
		if err := os.RemoveAll(folder); err != nil {
			return err
		}
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
		for _, d := range []dashboard{fleet(), target(), hub(), drift(), connectivity(), webhooks()} {
			content, err := d.json(f)
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(folder, d.uid+".json"), content, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}
