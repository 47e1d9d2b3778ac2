package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestLicencesOfAModule(t *testing.T) {
	bsd, err := os.ReadFile(filepath.Join(runtime.GOROOT(), "LICENSE"))
	if err != nil {
		t.Fatal(err)
	}
	const gpl = "SPDX-License-Identifier: GPL-3.0-only\nThis program is free software: you can redistribute it and/or modify it under the terms of the GNU General Public License as published by the Free Software Foundation, either version 3 of the License, or (at your option) any later version.\n"
	tests := map[string]struct {
		files map[string]string
		says  string // empty if nothing is wrong
	}{
		"an allowed one":               {map[string]string{"LICENSE": string(bsd)}, ""},
		"an allowed one, and a notice": {map[string]string{"LICENSE": string(bsd), "NOTICE": "by somebody"}, ""},
		"none":                         {map[string]string{}, "has no licence"},
		"only a notice":                {map[string]string{"NOTICE": "by somebody"}, "has no licence"},
		"one that nobody knows":        {map[string]string{"LICENSE": "Do what you think is right."}, "is the text of a licence that is known"},
		"one with conditions beside":   {map[string]string{"LICENSE": string(bsd) + strings.Repeat("It must not be used on Sundays. ", 60)}, "is the text of a licence that is known"},
		"one that is not allowed":      {map[string]string{"LICENSE": string(bsd), "COPYING": gpl}, "which is not among"},
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
