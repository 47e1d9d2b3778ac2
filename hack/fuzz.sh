#!/bin/sh
# Runs every fuzz target of the module for a while, one after the other: go test fuzzes one target of one package at a time.
#
#   hack/fuzz.sh 10s
set -eu
cd "$(dirname "$0")/.."
time=${1:-10s}

# "file:function", each; it is an error if there are none.
targets=$(grep -ro --include='*_test.go' --exclude-dir=bin --exclude-dir=.git '^func Fuzz[A-Za-z0-9_]*' .)
for target in $(printf '%s\n' "$targets" | sed 's/func //' | sort); do
	package=$(dirname "${target%%:*}")
	function=${target#*:}
	echo "== $function in $package"
	${GO:-go} test -run '^$' -fuzz "^$function\$" -fuzztime "$time" "$package"
done
