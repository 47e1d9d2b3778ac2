package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestLicencesOfAModule(t *testing.T) {
	root, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	bsd, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(root)), "LICENSE"))
	if err != nil {
		t.Fatal(err)
	}
	const gpl = "SPDX-License-Identifier: GPL-3.0-only\nThis program is free software: you can redistribute it and/or modify it under the terms of the GNU General Public License as published by the Free Software Foundation, either version 3 of the License, or (at your option) any later version.\n"
	tests := map[string]struct {
		files map[string]string
		says  string // empty if nothing is wrong
	}{
		"an allowed one":               {map[string]string{"LICENSE": string(bsd)}, ""},
		"an allowed one, and a notice": {map[string]string{"LICENSE": string(bsd), "NOTICE": "by its author"}, ""},
		"none":                         {map[string]string{}, "has no licence"},
		"only a notice":                {map[string]string{"NOTICE": "by its author"}, "has no licence"},
		"an unknown one": {map[string]string{"LICENSE": "Do what you think is right."},
			"is the text of a licence that is known"},
		"one with conditions beside": {
			map[string]string{"LICENSE": string(bsd) + strings.Repeat("It must not be used on Sundays. ", 60)},
			"is the text of a licence that is known",
		},
		"one that is not allowed": {map[string]string{"LICENSE": string(bsd), "COPYING": gpl}, "which is not among"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			module := &Module{Path: "example.com/a", files: map[string][]byte{}}
			for file, text := range test.files {
				module.files["/a/"+file] = []byte(text)
			}
			err := module.Judge()
			if test.says == "" && err != nil || test.says != "" && (err == nil || !strings.Contains(err.Error(), test.says)) {
				t.Errorf("got %v, want what says %q", err, test.says)
			}
		})
	}
}

// TestModulesOfEverySystem has one that is compiled in on Windows only.
func TestModulesOfEverySystem(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"go.mod":          "module example.com/a\n\ngo 1.26.0\n\nrequire example.com/b v1.0.0\n\nreplace example.com/b => ./b\n",
		"main.go":         "package main\n\nfunc main() {}\n",
		"main_windows.go": "package main\n\nimport _ \"example.com/b/c\"\n",
		"b/go.mod":        "module example.com/b\n\ngo 1.26.0\n",
		"b/LICENSE":       "of the module",
		"b/c/c.go":        "package c\n",
		"b/c/COPYING":     "of the package",
		"b/d/LICENSE":     "of what is not compiled in",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	modules, err := Modules([]string{"."})
	if err != nil {
		t.Fatal(err)
	}
	if len(modules) != 2 || modules[0].Path != "example.com/b" || modules[1].Path != "std" {
		t.Fatalf("got %v", modules)
	}
	texts := string(Texts(modules[:1]))
	if !strings.Contains(texts, "of the module") || !strings.Contains(texts, "of the package") || strings.Contains(texts, "not compiled in") {
		t.Errorf("the texts are %s", texts)
	}
}

func TestBillOfMaterials(t *testing.T) {
	id := regexp.MustCompile(`^SPDXRef-[A-Za-z0-9.-]+$`)
	modules := []*Module{
		{Path: "example.com/a", Version: "v1.2.3", licences: []string{"ISC", "MIT"}},
		{Path: "example.com/b", Version: "v0.1.0", licences: []string{"MIT"}},
	}
	for date, created := range map[string]string{"2026-03-01T12:00:00Z": "2026-03-01T12:00:00Z", "unknown": "1970-01-01T00:00:00Z"} {
		t.Setenv("VERSION", "v9")
		t.Setenv("DATE", date)
		content, err := SBOM(modules)
		if err != nil {
			t.Fatal(err)
		}
		var document spdxDocument
		if err := json.Unmarshal(content, &document); err != nil {
			t.Fatal(err)
		}
		if document.Version != "SPDX-2.3" || document.Creation.Created != created || !strings.HasPrefix(document.Namespace, "https://") {
			t.Errorf("it is %s of %s, %s", document.Version, document.Creation.Created, document.Namespace)
		}
		ids, found := map[string]bool{"SPDXRef-DOCUMENT": true}, []string{}
		for _, one := range document.Packages {
			if ids[one.ID] || !id.MatchString(one.ID) {
				t.Errorf("the ID %q is there twice, or none", one.ID)
			}
			ids[one.ID] = true
			found = append(found, one.Name+" "+one.Version+" "+one.LicenseConcluded)
			for _, reference := range one.References {
				found = append(found, reference.Locator)
			}
		}
		if got := fmt.Sprint(found); got != "[github.com/trellis-hub/trellis v9 Apache-2.0 example.com/a v1.2.3 ISC AND MIT pkg:golang/example.com/a@v1.2.3 "+
			"example.com/b v0.1.0 MIT pkg:golang/example.com/b@v0.1.0]" {
			t.Errorf("it has %s", got)
		}
		if len(document.Relationships) != 3 {
			t.Errorf("it says %v", document.Relationships)
		}
		for _, relationship := range document.Relationships {
			if !ids[relationship.Element] || !ids[relationship.Related] {
				t.Errorf("%v is about something that is not in it", relationship)
			}
		}
	}
}
