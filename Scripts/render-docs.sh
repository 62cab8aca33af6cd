#!/usr/bin/env bash
# Renders the documentation of all libraries; warnings of DocC are errors.
#
#   Scripts/render-docs.sh [<folder>]     the folder for the archives; default .build/documentation
set -euo pipefail

cd "$(dirname "$0")/.."

readonly output=${1:-.build/documentation}
# The manifest declares DocC's plugin only then, so that no app resolves it.
export SANGUINE_DOCUMENTATION=1

mkdir -p "$output"
for catalog in Sources/*/*.docc; do
    target=$(basename "$catalog" .docc)
    rm -rf "$output/$target.doccarchive"
    swift package --allow-writing-to-directory "$output" generate-documentation \
        --target "$target" --warnings-as-errors --output-path "$output/$target.doccarchive"
    if [ ! -f "$output/$target.doccarchive/data/documentation/$(tr '[:upper:]' '[:lower:]' \
        <<<"$target").json" ]; then
        echo "$target has no page in $output. Fix $0." >&2
        exit 1
    fi
done
