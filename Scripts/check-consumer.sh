#!/usr/bin/env bash
# Builds an app's package that links the product `Sanguine`, and shows that nothing was built for it
# but the client and the client's own dependencies.
set -euo pipefail

cd "$(dirname "$0")/.."

readonly build=.build-consumer

# Modules that an app may have to build. What is added here, every user of the client compiles.
readonly allowed="Consumer Sanguine SanguineModel
    GRDB
    Logging
    Histogram Numerics RealModule ComplexModule _NumericsShims
    Collections BitCollections ContainersPreview DequeModule HashTreeCollections HeapModule
    InternalCollectionsUtilities OrderedCollections _RopeModule"

# Prints the modules that were compiled. SwiftPM makes a folder for each module of each dependency,
# so that only modules and objects count.
built() {
    find "$build/debug/" -name '*.o' -path '*.build/*' | sed "s|^$build/debug/*||; s|\.build/.*||"
    find "$build/debug/Modules/" -name '*.swiftmodule' | sed 's|.*/||; s|\.swiftmodule$||'
}

# Prints the built modules that are not among the arguments.
unexpected() {
    local module
    built | sort -u | while read -r module; do
        case " $* " in *" $module "*) ;; *) printf '%s\n' "$module" ;; esac
    done
}

swift build --package-path Tests/ConsumerPackage --scratch-path "$build"

# shellcheck disable=SC2086 # One argument for each module.
surplus=$(unexpected $allowed)
if [ -n "$surplus" ]; then
    printf '%s\n' "An app that links only Sanguine had to build:" "$surplus" \
        "Remove the dependency from the targets Sanguine and SanguineModel in Package.swift. If the" \
        "client cannot do without it, add it to the list in $0." \
        "(If it is gone already, an earlier build left it: remove $build.)" >&2
    exit 1
fi

# The check is worth nothing if it sees nothing: with GRDB not allowed, it must object to GRDB.
# shellcheck disable=SC2086
if [ "$(unexpected ${allowed/GRDB/})" != GRDB ]; then
    echo "$0 does not see what was built in $build/debug. Mend the script." >&2
    exit 1
fi

echo "An app that links Sanguine builds the client's own dependencies and no more."
