package version

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
)

// Set by the linker, see hack/stamp.sh.
var version, commit, date string

// Info is what a program knows of its build.
type Info struct {
	// Version is a semantic version that begins with "v"; "dev" without a stamp.
	Version string `json:"version"`
	// Commit is the hash of the commit in git, with "-dirty" if there were changes that are not in it; "unknown" if it
	// was not recorded at the build.
	Commit string `json:"commit"`
	// Date is when the commit was made, in UTC as of RFC 3339; "unknown" if it was not recorded.
	Date string `json:"date"`
	// Go is the version of Go that it was built with.
	Go string `json:"go"`
	// Platform is the operating system and the architecture that it was built for, such as linux/amd64.
	Platform string `json:"platform"`
}

// Get returns the build of the running program.
func Get() Info {
	info := Info{Version: version, Commit: commit, Date: date, Go: runtime.Version(), Platform: runtime.GOOS + "/" +
		runtime.GOARCH}
	if build, ok := debug.ReadBuildInfo(); ok {
		settings := map[string]string{}
		for _, setting := range build.Settings {
			settings[setting.Key] = setting.Value
		}
		if info.Commit == "" && settings["vcs.modified"] == "true" {
			settings["vcs.revision"] += "-dirty"
		}
		info.Commit = cmp.Or(info.Commit, settings["vcs.revision"])
		info.Date = cmp.Or(info.Date, settings["vcs.time"])
	}
	info.Version, info.Commit, info.Date = cmp.Or(info.Version, "dev"), cmp.Or(info.Commit, "unknown"),
		cmp.Or(info.Date, "unknown")
	return info
}

// String is a line for people, without the name of the program.
func (i Info) String() string {
	return fmt.Sprintf("%s (commit %s of %s, %s, %s)", i.Version, i.Commit, i.Date, i.Go, i.Platform)
}
