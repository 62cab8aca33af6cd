#!/usr/bin/env bash
# Follows a real server's live feed in Chromium, with the module of the guide "Live changes in a
# browser", while the server ends the stream, is stopped for a while, and is started again.
set -euo pipefail

cd "$(dirname "$0")/.."
source Scripts/servers.sh
source Scripts/tools.sh

# shellcheck disable=SC2034 # For skip().
readonly unchecked="The guide's module was not tested in a browser."

command -v python3 >/dev/null || skip "there is no python3" "install python3"
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) ||
    skip "there is no Chromium" "install chromium"
readonly browser

${SWIFT:-swift} build --product sanguine

readonly work=.build/check-browser
rm -rf "$work"
mkdir -p "$work"
python3 Scripts/check-browser.py "$sanguine" "$browser" "$work" \
    Sources/SanguineServer/SanguineServer.docc/Live-In-A-Browser.md
