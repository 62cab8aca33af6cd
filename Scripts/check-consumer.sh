#!/usr/bin/env bash
# Builds an app's package that links the product `Sanguine`, and shows that nothing was resolved and
# nothing was built for it but the client and the client's own dependencies.
#
# The app depends on a repository, as apps do: one that is made here of the work tree as it is.
set -euo pipefail

cd "$(dirname "$0")/.."

readonly build=.build-consumer
readonly repository=$build/repository/sanguine
readonly package=Tests/ConsumerPackage

# The packages that an app may have to resolve.
readonly packages="GRDB.swift sanguine swift-collections swift-log"

# Modules that an app may have to build. What is added here, every user of the client compiles.
readonly allowed="Consumer ExistingAPI HandWritten MovedHere OwnServerApp RecordsFromNothing
    Sanguine SanguineModel
    GRDB
    Logging
    Collections BitCollections ContainersPreview DequeModule HashTreeCollections HeapModule
    InternalCollectionsUtilities OrderedCollections _RopeModule"

# Makes the repository, with a version that SwiftPM has not seen: what it has seen it keeps.
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

# Prints the modules that were compiled. SwiftPM makes a folder for each module of each dependency,
# so that only modules and objects count.
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
        "Name its products with 'server(…)' or 'testKit(…)' in Package.swift: a package that is" \
        "used without a trait is everybody's. (If it is gone already, remove $build.)" >&2
    exit 1
fi

# shellcheck disable=SC2086 # One argument for each module.
surplus=$(built | unexpected $allowed)
if [ -n "$surplus" ]; then
    printf '%s\n' "An app that links only Sanguine had to build:" "$surplus" \
        "Remove the dependency from the targets Sanguine and SanguineModel in Package.swift. If the" \
        "client cannot do without it, add it to the list in $0." \
        "(If it is gone already, an earlier build left it: remove $build.)" >&2
    exit 1
fi

# The check is worth nothing if it sees nothing: with GRDB not allowed, it must object to GRDB.
# shellcheck disable=SC2086
if [ "$(built | unexpected ${allowed/GRDB/})" != GRDB ]; then
    echo "$0 does not see what was built in $build/debug. Mend the script." >&2
    exit 1
fi

# A program of one's own asks for the server, and tests ask for the test kit: both build, the tests
# pass, and the server serves the guide's first records.
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

# Runs the guide's program, which must say what is expected.
expect() {
    local said
    said=$(timeout 60 "$program")
    case $said in
    *"$1"*) ;;
    *)
        printf '%s\n' "$program says:" "$said" "It should say '$1'." >&2
        exit 1
        ;;
    esac
}

# The guide's program asks port 8080 of this machine.
if (exec 3<>/dev/tcp/127.0.0.1/8080) 2>/dev/null; then
    echo "Port 8080 is taken: the guide's program was built, and is not run."
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

echo "An app that links Sanguine resolves and builds the client's own dependencies and no more,"
echo "in $took s on $(getconf _NPROCESSORS_ONLN) cores:"
resolved "$build" | sed 's/^/  /'
