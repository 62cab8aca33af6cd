#!/usr/bin/env bash
# Runs each check with a PATH that lacks its tool: it must report that it was skipped, and fail with
# REQUIRE_TOOLS=1. Builds nothing.
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin" "$work/old" "$work/tree"

# A tree in which no earlier run installed anything.
cp -R "$(dirname "$0")" "$work/tree/Scripts"
here=$work/tree/Scripts

# The commands that the scripts use before they look for their tools; a build is a failure.
for tool in bash dirname env; do ln -s "$(command -v "$tool")" "$work/bin/$tool"; done
printf '#!/bin/sh\necho "built $*"\nexit 3\n' >"$work/bin/swift"
chmod +x "$work/bin/swift"

# A Python without the packages that Debian ships separately.
cp -P "$work"/bin/* "$work/old"
printf '#!/bin/sh\nexit 1\n' >"$work/old/python3"
chmod +x "$work/old/python3"

# expect SCRIPT FOLDER REQUIRED STATUS TEXT: its exit status, and a part of its output.
expect() {
    local status=0 output
    output=$(PATH="$2" REQUIRE_TOOLS="$3" "$2/bash" "$here/$1" 2>&1) || status=$?
    if [ "$status" != "$4" ]; then
        echo "$1 with REQUIRE_TOOLS='$3' ended with $status, not $4: $output" >&2
        exit 1
    fi
    case $output in
    *"$5"*) ;;
    *)
        echo "$1 with REQUIRE_TOOLS='$3' did not say '$5': $output" >&2
        exit 1
        ;;
    esac
}

for script in check-openapi.sh check-openai.sh check-tus.sh check-browser.sh bench-litellm.sh; do
    for required in '' 0; do
        expect "$script" "$work/bin" "$required" 0 "Skipped: there is no python3."
    done
    expect "$script" "$work/bin" 1 1 "install python3."
done
for script in check-openapi.sh check-openai.sh check-tus.sh bench-litellm.sh; do
    expect "$script" "$work/old" '' 0 "Skipped: python3 has no module 'venv'."
    expect "$script" "$work/old" 1 1 "install python3-venv."
done
expect check-browser.sh "$work/old" '' 0 "Skipped: there is no Chromium."
expect check-browser.sh "$work/old" 1 1 "install chromium."

echo "missing tools: each check reports them, and fails with REQUIRE_TOOLS=1"
