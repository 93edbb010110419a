#!/usr/bin/env bash
# Runs every fuzz target of this module for a time, one after the other: a package can fuzz one at a time. What is found is put into the
# testdata of the target's package, where go test runs it from then on; all targets are run before this fails.
set -euo pipefail
time=$1 only=${2:-Fuzz}
failed=()
while IFS=: read -r file target; do
  echo "fuzz $target in $(dirname "$file"), $time"
  go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 5s "./$(dirname "$file")" || failed+=("$target")
done < <(git ls-files '*_test.go' | xargs grep -oE "^func ${only}[A-Za-z0-9]*\(f \*testing\.F\)" | sed -E 's/:func ([A-Za-z0-9]+)\(.*/:\1/' | sort)
[ ${#failed[@]} -eq 0 ] || { echo "found something: ${failed[*]}"; exit 1; }
