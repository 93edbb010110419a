#!/usr/bin/env bash
# Runs every fuzz target of this module for a time, one after the other. What is found is put into the testdata of the target's package, where go
# test runs it from then on; all targets are run before this fails.
#
# The test program of a package is built once for all its targets, with what leads fuzzing (which branches an input has come to) in the packages of this module: seconds.
# WIDE=1 has it in those of others and the standard library, too, as go test -fuzz does: parsers of others are searched better, and each of some thousand packages
# is compiled anew the first time, which takes minutes for each that has Kubernetes or Helm in it.
set -euo pipefail
time=$1 only=${2:-Fuzz}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cache=$(go env GOCACHE)/fuzz
module=$(go list -m)
lead=("-gcflags=$module/...=-d=libfuzzer")
[ -z "${WIDE:-}" ] || lead=(-fuzz .)
declare -A targets
while IFS=: read -r file target; do
  targets[$(dirname "$file")]+=" $target"
done < <(git ls-files '*_test.go' | xargs grep -oE "^func ${only}[A-Za-z0-9]*\(f \*testing\.F\)" | sed -E 's/:func ([A-Za-z0-9]+)\(.*/:\1/' | sort)
[ ${#targets[@]} -gt 0 ] || { echo "there is no fuzz target $only"; exit 1; }
# inputs are those that are kept of a target.
inputs() { ls -1 "$1/testdata/fuzz/$2" 2>/dev/null || true; }
failed=()
while read -r _ folder; do
  began=$SECONDS
  go test -c -vet=off "${lead[@]}" -o "$work/fuzz.test" "./$folder"
  echo "built $folder in $((SECONDS - began)) s"
  for target in ${targets[$folder]}; do
    echo "fuzz $target in $folder, $time"
    found=$(inputs "$folder" "$target")
    (cd "$folder" && "$work/fuzz.test" -test.run '^$' -test.fuzz "^$target\$" -test.fuzztime "$time" -test.fuzzminimizetime 5s -test.fuzzcachedir "$cache/$module/$folder") 2>&1 | tee "$work/log" && continue
    # When its time is over Go ends its workers, and takes one that was at work for a failure (golang/go#75804). A finding says which input it was, and has left that.
    if grep -qE '^ +context deadline exceeded$' "$work/log" && ! grep -qE 'Failing input written to|panic:|_test\.go:[0-9]+:|Error Trace:' "$work/log" && [ "$found" = "$(inputs "$folder" "$target")" ]; then
      echo "$target: a worker was at work when the time was over; nothing was found"
      continue
    fi
    failed+=("$folder $target")
  done
done < <(for folder in "${!targets[@]}"; do echo "$(go list -deps -test "./$folder" | wc -l) $folder"; done | sort -n)
[ ${#failed[@]} -eq 0 ] || { printf 'found something: %s\n' "${failed[@]}"; exit 1; }
