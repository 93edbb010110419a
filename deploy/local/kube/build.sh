#!/usr/bin/env bash
# Builds build/bin/drover-kube of the repository, unless its inputs are those of
# an earlier build: artifacts are kept in build/cache by the hash of everything
# that goes into them.
set -euo pipefail

module_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build_dir=$(cd "$module_dir/../../.." && pwd)/build
cache_dir=$build_dir/cache
binary=$build_dir/bin/drover-kube
kept_builds=3

cd "$module_dir"
mkdir -p "$cache_dir" "$build_dir/bin"

hash_stdin() {
  if command -v sha256sum >/dev/null; then sha256sum; else shasum -a 256; fi | cut -d' ' -f1
}

# The release to report, taken from the module that is built. Without it, the
# components call themselves v0.0.0-master, which kubectl cannot parse.
version=$(awk '$1 == "k8s.io/kubernetes" { print $2; exit }' go.mod)
IFS=. read -r major minor _ <<<"${version#v}"
ldflags="-s -w"
for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
  ldflags+=" -X $package.gitVersion=$version -X $package.gitMajor=$major -X $package.gitMinor=$minor"
done

key=$(
  {
    go version
    go env GOOS GOARCH CGO_ENABLED
    echo "$ldflags"
    find . -type f \( -name go.mod -o -name go.sum -o -name '*.go' -o -name '*.yaml' \) ! -name '*_test.go' -print0 |
      LC_ALL=C sort -z |
      while IFS= read -r -d '' file; do
        echo "$file"
        hash_stdin <"$file"
      done
  } | hash_stdin
)
artifact=$cache_dir/drover-kube-$key

# Builds that start at the same time wait for the first one instead of doing the
# same work again.
if command -v flock >/dev/null; then
  exec 9>"$cache_dir/drover-kube.lock"
  flock 9
fi

if [[ -x $artifact ]]; then
  echo "drover-kube is up to date: $binary"
  touch "$artifact"
else
  echo "building drover-kube, which takes minutes the first time"
  export GOFLAGS="${GOFLAGS:-} -trimpath"
  (cd .. && go run ./compile -dir "$module_dir" -name drover-kube -ldflags "$ldflags" -o "$artifact.tmp")
  mv "$artifact.tmp" "$artifact"
fi
[[ $binary -ef $artifact ]] || ln -f "$artifact" "$binary"

# shellcheck disable=SC2012 # the names are our own: hexadecimal digits
ls -t "$cache_dir"/drover-kube-* | tail -n "+$((kept_builds + 1))" | while read -r old; do rm -f "$old"; done
