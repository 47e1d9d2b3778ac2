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

// write writes all dashboards into a folder that has nothing else.
func write(folder string) error {
	old, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil {
		return err
	}
	for _, name := range old {
		if err := os.Remove(name); err != nil {
			return err
		}
	}
	for _, d := range []dashboard{fleet(), target(), hub(), drift(), connectivity()} {
		content, err := d.json()
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, d.uid+".json"), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}
