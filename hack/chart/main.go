package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: chart DIRECTORY")
		os.Exit(2)
	}
	if err := generate(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

// generate brings README.md and values.schema.json of a chart up to date.
func generate(directory string) error {
	values, err := os.ReadFile(filepath.Join(directory, "values.yaml"))
	if err != nil {
		return err
	}
	page, err := Readme(values)
	if err != nil {
		return fmt.Errorf("values.yaml: %w", err)
	}
	if err := write(filepath.Join(directory, "README.md"), page); err != nil {
		return err
	}
	path := filepath.Join(directory, "values.schema.json")
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var schema struct {
		Properties map[string]any `json:"properties"`
	}
	var all map[string]any
	for _, into := range []any{&schema, &all} {
		if err := json.Unmarshal(content, into); err != nil {
			return fmt.Errorf("values.schema.json: %w", err)
		}
	}
	schema.Properties["config"] = ConfigSchema()
	all["properties"] = schema.Properties
	if content, err = json.MarshalIndent(all, "", "  "); err != nil {
		return fmt.Errorf("values.schema.json: %w", err)
	}
	return write(path, append(content, '\n'))
}

func write(path string, content []byte) error {
	return os.WriteFile(path, content, 0o644) //nolint:gosec // a page of documentation, and a schema
}
