#!/usr/bin/env bash
# What is done with releases. docs/releases.txt names them, the last one last: version, commit, and the digest of the list of the histories
# that were recorded of it.
#
#   release.sh build             builds the program of the last release into build/bin/drover-released, once for each commit; ends with 3
#                                where that commit cannot be had
#   release.sh record COMMIT     makes a release of a commit: records its histories and names it in docs/releases.txt
set -euo pipefail
cd "$(dirname "$0")/../.."
list=docs/releases.txt

# there says whether this clone has a commit, for which it asks its origin when it is a shallow one.
there() {
  git cat-file -e "$1^{commit}" 2>/dev/null || timeout 60 git fetch -q --depth=1 origin "$1" 2>/dev/null || return 1
}

build() {
  local version commit folder
  read -r version commit _ < <(grep -v '^#' "$list" | tail -n 1)
  folder=build/releases/$commit
  if [[ ! -x $folder/drover ]]; then
    if ! there "$commit"; then
      rm -f build/bin/drover-released
      echo "release.sh: neither this clone nor its origin has $commit, the commit of $version: nothing is upgraded from it. git fetch --unshallow" >&2
      exit 3
    fi
    echo "building $version"
    rm -rf "$folder" && mkdir -p "$folder/source"
    git archive "$commit" | tar -x -C "$folder/source"
    # The repository around it is no source of it, so that it is not stamped with that one's commit.
    (cd "$folder/source" && GOFLAGS="${GOFLAGS:-} -trimpath" go build -buildvcs=false -o ../drover.tmp ./cmd/drover)
    mv "$folder/drover.tmp" "$folder/drover"
    rm -rf "$folder/source"
  fi
  mkdir -p build/bin
  [[ $folder/drover -ef build/bin/drover-released ]] || ln -f "$folder/drover" build/bin/drover-released
}

record() {
  local commit version source folder
  commit=$(git rev-parse --verify "$1^{commit}")
  version=v$(git show "$commit:internal/version/VERSION")
  [[ $version =~ ^v[0-9]+\.[0-9]+\.[0-9]+$ ]] || { echo "release.sh: $commit is $version, which is no release" >&2; exit 1; }
  folder=$PWD/workflows/testdata/replay/$version
  [[ ! -e $folder ]] || { echo "release.sh: $folder is there: what was recorded of a release stays as it is" >&2; exit 1; }
  source=$(mktemp -d)
  # shellcheck disable=SC2064 # the folder of now
  trap "git worktree remove --force '$source/of' 2>/dev/null; rm -rf '$source'" EXIT
  git worktree add -q --detach "$source/of" "$commit"
  mkdir -p "$source/of/build"
  [[ ! -d build/cache ]] || cp -al build/cache "$source/of/build/cache"
  make -C "$source/of" record-replay TO="$folder"
  (cd "$folder" && find . -name '*.json' | LC_ALL=C sort | xargs sha256sum >SHA256SUMS)
  echo "$version $commit $(sha256sum <"$folder/SHA256SUMS" | cut -d' ' -f1)" >>"$list"
  tail -n 1 "$list"
}

case ${1:-} in
build) build ;;
record) record "${2:?which commit?}" ;;
*) sed -n '2,8p' "$0" && exit 2 ;;
esac
