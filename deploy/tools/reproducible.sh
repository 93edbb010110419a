#!/usr/bin/env bash
# Builds the present commit twice, in clones in folders of different names and each with an empty build cache, and compares the binaries.
set -euo pipefail
root=$(git rev-parse --show-toplevel)
commit=$(git -C "$root" rev-parse HEAD) # once: somebody may commit while it is built
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for name in one another-folder; do
  git clone -q --no-hardlinks "$root" "$work/$name"
  git -C "$work/$name" checkout -q "$commit"
  (cd "$work/$name" && GOCACHE=$work/cache-$name make -s build-product)
  rm -rf "$work/cache-$name"
  echo "built in the folder $name after $SECONDS s"
done
one=$(sha256sum < "$work/one/build/bin/drover") another=$(sha256sum < "$work/another-folder/build/bin/drover")
[ "$one" = "$another" ] || { echo "two builds of one commit differ: $one $another"; exit 1; }
echo "two builds of ${commit:0:12} are the same: ${one%% *}"
