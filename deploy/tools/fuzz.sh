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
failed=()
while read -r _ folder; do
  began=$SECONDS
  go test -c -vet=off "${lead[@]}" -o "$work/fuzz.test" "./$folder"
  echo "built $folder in $((SECONDS - began)) s"
  for target in ${targets[$folder]}; do
    echo "fuzz $target in $folder, $time"
    (cd "$folder" && "$work/fuzz.test" -test.run '^$' -test.fuzz "^$target\$" -test.fuzztime "$time" -test.fuzzminimizetime 5s -test.fuzzcachedir "$cache/$module/$folder") || failed+=("$folder $target")
  done
done < <(for folder in "${!targets[@]}"; do echo "$(go list -deps -test "./$folder" | wc -l) $folder"; done | sort -n)
[ ${#failed[@]} -eq 0 ] || { printf 'found something: %s\n' "${failed[@]}"; exit 1; }
