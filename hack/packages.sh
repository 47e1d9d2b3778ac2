#!/bin/sh
# Usage: hack/packages.sh raced|plain [PACKAGE...]
# Prints the packages of shipped code whose tests start no control plane ("raced"), or the others that have tests
# ("plain"), without those that are named. What the tests are linked with decides, so there is no list to maintain. The
# package with the most tests comes first: it takes longest, and would otherwise begin when all others have ended.
set -eu
cd "$(dirname "$0")/.."
wanted="${1:?raced or plain}"
shift
list="$("${GO:-go}" list -test -f '{{.ImportPath}} {{join .Deps " "}}' ./...)"
echo "$list" | awk -v wanted="$wanted" -v named="$*" '
	BEGIN { split(named, names, " "); for (i in names) without[names[i]] }
	$1 ~ /\.test$/ {
		kind = /\/hack\/controlplane( |$)|^[^ ]*\/hack\// ? "plain" : "raced"
		sub(/^github\.com\/[^\/]*\/[^\/]*/, ".", $1)
		sub(/\.test$/, "", $1)
		if (kind == wanted && !($1 in without)) print $1
	}' | while read -r package; do
	echo "$(cat "$package"/*_test.go | wc -c) $package"
done | sort -rn | cut -d' ' -f2
