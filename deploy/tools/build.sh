#!/usr/bin/env bash
# Builds the linters that go.mod pins into build/bin, when go.mod, go.sum or the Go version changed.
set -euo pipefail
cd "$(dirname "$0")"
root=$(cd ../.. && pwd)
key=$( { cat go.mod go.sum; go env GOVERSION; } | sha256sum | cut -c1-16)
mkdir -p "$root/build/bin" "$root/build/cache"
for tool in github.com/golangci/golangci-lint/v2/cmd/golangci-lint go.temporal.io/sdk/contrib/tools/workflowcheck; do
  name=${tool##*/}
  cached=$root/build/cache/$name-$key
  if [ ! -x "$cached" ]; then
    echo "building $name (a few minutes the first time)"
    go build -trimpath -ldflags '-s -w' -o "$cached.$$" "$tool"
    mv "$cached.$$" "$cached"
  fi
  ln -sf "$cached" "$root/build/bin/$name"
done
