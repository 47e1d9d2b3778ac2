#!/bin/sh
# Puts prometheus, promtool and alertmanager into a folder, once.
#
# Prometheus is the one that is installed here, else that of the distribution's package, which is unpacked and not installed, so
# nobody has to be root. Where there is no apt, it is built from its Go module in the version of this folder's go.mod, which takes a
# quarter of an hour, since the command contains the discovery of every cloud. The Alertmanager is always built, in two minutes:
# that of the package looks for its templates in a fixed place.
set -eu
[ $# -eq 1 ] || { echo "usage: install.sh FOLDER" >&2; exit 2; }
mkdir -p "$1"
to=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
# One at a time: a second run waits, and finds everything there. The lock goes with its process.
if command -v flock >/dev/null; then
	exec 9>"$to/lock"
	flock 9
fi
# runs tells whether all of it still does: what was installed here, and is only linked, may have been removed since.
runs() {
	for name in prometheus promtool alertmanager; do
		"$to/$name" --version >"$1" 2>&1 || return 1
	done
}
if [ -e "$to/complete" ] && runs /dev/null; then exit 0; fi
rm -f "$to/complete" "$to/prometheus" "$to/promtool"
work=$(mktemp -d "$to/work.XXXXXX")
trap 'rm -rf "$work"' EXIT

# build compiles commands of modules.
build() {
	for command in "$@"; do
		CGO_ENABLED=0 GOWORK=off "${GO:-go}" -C "$here" build -ldflags "-s -w" -o "$to/${command##*/}" "github.com/prometheus/$command"
	done
}

unpack() {
	command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || return 1
	(cd "$work" && apt-get download prometheus) >"$work/log" 2>&1 || return 1
	dpkg-deb -x "$work"/prometheus_*.deb "$work/root" || return 1
	mv "$work/root/usr/bin/prometheus" "$work/root/usr/bin/promtool" "$to"
}

if command -v prometheus >/dev/null && command -v promtool >/dev/null; then
	for name in prometheus promtool; do ln -sf "$(command -v $name)" "$to/$name"; done
elif ! unpack; then
	echo "building Prometheus, which takes a quarter of an hour"
	build prometheus/cmd/prometheus prometheus/cmd/promtool
fi
echo "building the Alertmanager, which takes two minutes"
build alertmanager/cmd/alertmanager
runs "$work/version" || { cat "$work/version" >&2; exit 1; }
touch "$to/complete"
