#!/usr/bin/env bash
# Builds an app's package that links the product `Sanguine`, and checks that only the client and its
# own dependencies were resolved and built.
#
# Like any app, this one depends on a repository, which is created here from the current work tree.
set -euo pipefail

cd "$(dirname "$0")/.."

readonly build=.build-consumer
readonly repository=$build/repository/sanguine
readonly package=Tests/ConsumerPackage

# The packages that an app may have to resolve.
readonly packages="GRDB.swift sanguine swift-collections swift-log"

# Modules that an app may have to build. Every user of the client compiles what is added here.
readonly allowed="Consumer ExistingAPI HandWritten MovedHere OwnServerApp RecordsFromNothing
    Sanguine SanguineMedia SanguineModel
    GRDB
    Logging
    Collections BitCollections ContainersPreview DequeModule HashTreeCollections HeapModule
    InternalCollectionsUtilities OrderedCollections _RopeModule"

# Creates the repository, with a new version, because SwiftPM caches known versions.
make_repository() {
    local tree commit
    tree=$(
        export GIT_INDEX_FILE=$PWD/$build/index
        git add --all . && git write-tree
    )
    commit=$(
        GIT_AUTHOR_NAME=check GIT_AUTHOR_EMAIL=check@localhost \
            GIT_COMMITTER_NAME=check GIT_COMMITTER_EMAIL=check@localhost \
            git commit-tree "$tree" -m "The work tree."
    )
    rm -rf "$repository"
    git init --quiet --bare "$repository"
    git push --quiet "$repository" "$commit:refs/heads/main" \
        "$commit:refs/tags/1.0.$(date +%s)"
    git --git-dir "$repository" symbolic-ref HEAD refs/heads/main
}

# Prints the packages that were resolved.
resolved() { (cd "$1/checkouts" && printf '%s\n' * | sort); }

# Prints the modules that were compiled. Folders do not count, because SwiftPM creates one for each
# module of each dependency.
built() {
    find "$build/debug/" -name '*.o' -path '*.build/*' | sed "s|^$build/debug/*||; s|\.build/.*||"
    find "$build/debug/Modules/" -name '*.swiftmodule' | sed 's|.*/||; s|\.swiftmodule$||'
}

# Prints the lines of standard input that are not among the arguments.
unexpected() {
    local name
    sort -u | while read -r name; do
        case " $* " in *" $name "*) ;; *) printf '%s\n' "$name" ;; esac
    done
}

mkdir -p "$build"
make_repository
rm -f "$package/Package.resolved"
swift package --package-path "$package" --scratch-path "$build" update
started=$SECONDS
swift build --package-path "$package" --scratch-path "$build"
readonly took=$((SECONDS - started))

# shellcheck disable=SC2086 # One argument for each package.
surplus=$(resolved "$build" | unexpected $packages)
if [ -n "$surplus" ]; then
    printf '%s\n' "An app that links only Sanguine had to resolve:" "$surplus" \
        "Declare its products with 'server(…)' or 'testKit(…)' in Package.swift: every app" \
        "resolves a package that is used without a trait. (If you already did, remove $build.)" >&2
    exit 1
fi

# shellcheck disable=SC2086 # One argument for each module.
surplus=$(built | unexpected $allowed)
if [ -n "$surplus" ]; then
    printf '%s\n' "An app that links only Sanguine had to build:" "$surplus" \
        "Remove the dependency from the targets Sanguine and SanguineModel in Package.swift. If the" \
        "client cannot do without it, add it to the list in $0." \
        "(If you already did, an earlier build left it: remove $build.)" >&2
    exit 1
fi

# Checks the check itself: if GRDB is not allowed, it must report GRDB.
# shellcheck disable=SC2086
if [ "$(built | unexpected ${allowed/GRDB/})" != GRDB ]; then
    echo "$0 does not find the modules that were built in $build/debug. Fix the script." >&2
    exit 1
fi

# A program that uses the server and tests that use the test kit: both build, the tests pass, and
# the server serves the guide's first records.
export CONSUMER_TRAIT=Server
rm -f "$package/Package.resolved"
swift package --package-path "$package" --scratch-path "$build/server" update
swift build --package-path "$package" --scratch-path "$build/server" --build-tests
swift test --package-path "$package" --scratch-path "$build/server" --skip-build
rm -f "$package/Package.resolved"

readonly program=$build/debug/RecordsFromNothing
readonly files=$build/served
server=
stop() { if [ -n "$server" ]; then kill "$server" 2>/dev/null || true; fi; }
trap stop EXIT

# Runs the guide's program, whose output must contain the text.
expect() {
    local said
    said=$(timeout 60 "$program")
    case $said in
    *"$1"*) ;;
    *)
        printf '%s\n' "$program printed:" "$said" "Expected '$1'." >&2
        exit 1
        ;;
    esac
}

# The guide's program calls port 8080 of this machine.
if (exec 3<>/dev/tcp/127.0.0.1/8080) 2>/dev/null; then
    echo "Port 8080 is in use: the guide's program was built, but is not run."
else
    rm -rf /tmp/records-from-nothing "$files"
    expect "2 wait for the next run"
    "$build/server/debug/OwnServer" "$files" >"$build/served.log" 2>&1 &
    server=$!
    for _ in $(seq 100); do
        if grep -q "listening on" "$build/served.log"; then break; fi
        sleep 0.1
    done
    expect "The server has all 2."
    rm -rf /tmp/records-from-nothing
fi

echo "An app that links Sanguine resolves and builds only the client's own dependencies,"
echo "in $took s on $(getconf _NPROCESSORS_ONLN) cores:"
resolved "$build" | sed 's/^/  /'
