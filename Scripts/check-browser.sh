#!/usr/bin/env bash
# Follows a real server's live feed in Chromium with the module of the guide "Live changes in a
# browser": the server ends the stream, is stopped for a while, and is started again.
set -euo pipefail

cd "$(dirname "$0")/.."
source Scripts/servers.sh

skip() {
    echo "Skipped: $1. The guide's module was not tried in a browser." >&2
    exit 0
}

command -v python3 >/dev/null || skip "there is no python3 here"
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) ||
    skip "there is no Chromium here"
readonly browser

${SWIFT:-swift} build --product sanguine

readonly work=.build/check-browser
rm -rf "$work"
mkdir -p "$work"
python3 Scripts/check-browser.py "$sanguine" "$browser" "$work" \
    Sources/SanguineServer/SanguineServer.docc/Live-In-A-Browser.md
