#!/bin/sh
# Prints the flags by which the linker tells programs which build they are, see the package version. With a name as argument,
# "version", "commit" or "date", it prints only that value.
#
# The version is the chart's appVersion if the commit has a tag of that name and nothing else was changed, and a "-dev" follows
# it otherwise. The commit ends with "-dirty" if anything was changed, files included that git does not know and does not
# ignore: they may be compiled in. The date is that of the commit, so that two builds of it are equal. VERSION, COMMIT and DATE win.
set -eu
cd "$(dirname "$0")/.."

released=$(sed -n 's/^appVersion: *//p' charts/trellis/Chart.yaml)
commit=${COMMIT:-}
date=${DATE:-}
version=${VERSION:-}
if [ "$(git rev-parse --show-toplevel 2>/dev/null)" = "$(pwd -P)" ]; then
	head=$(git rev-parse HEAD)
	if [ -n "$(git status --porcelain -- . ':(exclude)bin')" ]; then
		head=$head-dirty
	elif [ "$(git rev-parse --quiet --verify "refs/tags/$released^{commit}" || true)" = "$head" ]; then
		version=${version:-$released}
	fi
	commit=${commit:-$head}
	date=${date:-$(TZ=UTC0 git log -1 --date=format-local:%Y-%m-%dT%H:%M:%SZ --format=%cd)}
elif [ -e .git ]; then # as in a container, without the repository that it points to, or as another user
	echo "hack/stamp.sh: git does not tell which commit this is: $(git rev-parse --show-toplevel 2>&1)" >&2
fi
version=${version:-$released-dev}
commit=${commit:-unknown}
date=${date:-unknown}

case ${1:-} in
version) echo "$version" ;;
commit) echo "$commit" ;;
date) echo "$date" ;;
*)
	package=github.com/trellis-hub/trellis/version
	echo "-X $package.version=$version -X $package.commit=$commit -X $package.date=$date"
	;;
esac
