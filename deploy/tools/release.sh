#!/usr/bin/env bash
# What is done with releases. docs/releases.txt names them, the last one last: version, commit, and the digest of the list of the histories
# that were recorded of it. What was recorded of one later is named there, too: v0.1.0+batches.
#
#   release.sh build             builds the program of the last release into build/bin/drover-released, once for each commit; ends with 3
#                                where that commit cannot be had
#   release.sh record COMMIT     makes a release of a commit: records its histories, keeps its lists of what documents have, and names it
#                                in docs/releases.txt
#   release.sh more VERSION NAME SITUATION
#                                records of a release a situation of TestRecordReplay that it did not have then, into VERSION+NAME
set -euo pipefail
cd "$(dirname "$0")/../.."
list=docs/releases.txt

# there says whether this clone has a commit, for which it asks its origin when it is a shallow one.
there() {
  git cat-file -e "$1^{commit}" 2>/dev/null || timeout 60 git fetch -q --depth=1 origin "$1" 2>/dev/null || return 1
}

# program builds that of a release, once, and sets folder to where it is.
program() {
  local version=$1 commit=$2
  folder=build/releases/$commit
  if [[ ! -x $folder/drover ]]; then
    if ! there "$commit"; then
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
}

build() {
  local version commit folder
  read -r version commit _ < <(grep '^v[0-9.]* ' "$list" | tail -n 1)
  [[ -x build/releases/$commit/drover ]] || there "$commit" || rm -f build/bin/drover-released
  program "$version" "$commit"
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
  mkdir -p "internal/store/testdata/$version"
  cp "$source/of/internal/store/testdata/"{members,versions}.txt "internal/store/testdata/$version/"
  name "$version" "$commit" "$folder"
}

# name names what a folder has of a release.
name() {
  (cd "$3" && find . -name '*.json' | LC_ALL=C sort | xargs sha256sum >SHA256SUMS)
  echo "$1 $2 $(sha256sum <"$3/SHA256SUMS" | cut -d' ' -f1)" >>"$list"
  tail -n 1 "$list"
}

more() {
  local version=$1 commit folder source to
  commit=$(awk -v version="$version" '$1 == version { print $2 }' "$list")
  [[ -n $commit ]] || { echo "release.sh: $list has no $version" >&2; exit 1; }
  [[ $2 =~ ^[a-z-]+$ ]] || { echo "release.sh: $2 is no name of small letters" >&2; exit 1; }
  to=$PWD/workflows/testdata/replay/$version+$2
  [[ ! -e $to ]] || { echo "release.sh: $to is there: what was recorded of a release stays as it is" >&2; exit 1; }
  program "$version" "$commit"
  source=$(mktemp -d)
  # shellcheck disable=SC2064 # the folder of now
  trap "rm -rf '$source'" EXIT
  make record-replay TO="$source/new" PROGRAM="../releases/$commit/drover" SITUATION="$3"
  mv "$source/new" "$to"
  name "$version+$2" "$commit" "$to"
}

case ${1:-} in
build) build ;;
record) record "${2:?which commit?}" ;;
more) more "${2:?which release?}" "${3:?which name?}" "${4:?which situation?}" ;;
*) sed -n '2,12p' "$0" && exit 2 ;;
esac
