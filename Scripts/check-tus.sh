#!/usr/bin/env bash
# Uploads files to a real server with the official Python client of the tus protocol, `tuspy`:
# in one request, in parts, with checksums, and after a restart of the server.
#
# The package is installed into its own folder.
set -euo pipefail

cd "$(dirname "$0")/.."
source Scripts/servers.sh
source Scripts/tools.sh

readonly work=.build/check-tus

# shellcheck disable=SC2034 # For skip().
readonly unchecked="The client tuspy was not tested."

require_python
if [ ! -d "$work/python/lib" ] || ! "$work/python/bin/python" -c 'import tusclient' 2>/dev/null; then
    python3 -m venv "$work/python"
    "$work/python/bin/pip" --quiet install 'tuspy>=1.1,<2' >&2 ||
        skip "the tuspy package cannot be installed" "let pip reach PyPI"
fi

${SWIFT:-swift} build --product sanguine

rm -rf "$work/data" "$work/state.json"
for part in begin resume; do
    start "$work/server-$part.log" serve --data "$work/data" --port 0 --admin-port 0
    "$work/python/bin/python" Scripts/check-tus.py "$address" "$part" "$work/state.json"
    stop
done
