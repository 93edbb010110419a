#!/usr/bin/env bash
# Builds build/bin/drover-local of the repository, unless its inputs are those of
# an earlier build: artifacts are kept in build/cache by the hash of everything
# that goes into them.
set -euo pipefail

module_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repo_dir=$(cd "$module_dir/../.." && pwd)
cache_dir=$repo_dir/build/cache
binary=$repo_dir/build/bin/drover-local
kept_builds=3
ldflags="-s -w"

# Directories of the repository that nothing is built from here. All others
# count with all their files, since packages embed more than Go.
not_inputs=(./.git ./build ./docs ./test ./deploy/local/kube)

mkdir -p "$cache_dir" "${binary%/*}"
cd "$repo_dir"

sum=(sha256sum)
command -v sha256sum >/dev/null || sum=(shasum -a 256)

inputs() {
  local prune=()
  for dir in "${not_inputs[@]}"; do prune+=(-path "$dir" -prune -o); done
  find . "${prune[@]}" -name testdata -prune -o -type f ! -name '*_test.go' ! -name '*.md' -print0 | LC_ALL=C sort -z
}

key=$(
  {
    go version
    go env GOOS GOARCH CGO_ENABLED
    echo "$ldflags"
    inputs | xargs -0 "${sum[@]}"
  } | "${sum[@]}" | cut -d' ' -f1
)
artifact=$cache_dir/drover-local-$key

# Builds that start at the same time wait for the first one instead of doing the
# same work again.
if command -v flock >/dev/null; then
  exec 9>"$cache_dir/drover-local.lock"
  flock 9
fi

if [[ -x $artifact ]]; then
  echo "drover-local is up to date: $binary"
  touch "$artifact"
else
  echo "building drover-local, which takes minutes the first time"
  export GOFLAGS="${GOFLAGS:-} -trimpath"
  (cd "$module_dir" && go run ./compile -name drover-local -ldflags "$ldflags" -o "$artifact.tmp")
  mv "$artifact.tmp" "$artifact"
fi
[[ $binary -ef $artifact ]] || ln -f "$artifact" "$binary"

# shellcheck disable=SC2012 # the names are our own: hexadecimal digits
ls -t "$cache_dir"/drover-local-* | tail -n "+$((kept_builds + 1))" | while read -r old; do rm -f "$old"; done
