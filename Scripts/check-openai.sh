#!/usr/bin/env bash
# Calls a real server with the official `openai` package: chat completions in one piece and
# streamed, tools, embeddings, models, refusals. Compares the charges with the reported usage.
#
# The package is installed into its own folder.
set -euo pipefail

cd "$(dirname "$0")/.."
source Scripts/servers.sh
source Scripts/tools.sh

readonly work=.build-openai

# shellcheck disable=SC2034 # For skip().
readonly unchecked="The openai package was not tested."

require_python
if [ ! -d "$work/python/lib" ] || ! "$work/python/bin/python" -c 'import openai' 2>/dev/null; then
    python3 -m venv "$work/python"
    "$work/python/bin/pip" --quiet install 'openai>=1,<3' >&2 ||
        skip "the openai package cannot be installed" "let pip reach PyPI"
fi

${SWIFT:-swift} build --product sanguine

rm -rf "$work/data"
start "$work/stand-in.log" stand-in --port 0
start "$work/server.log" serve --data "$work/data" --port 0 --admin-port 0 --upstream "$address"

"$work/python/bin/python" Scripts/check-openai.py "$address"
stop
"$sanguine" ledger verify --data "$work/data"
