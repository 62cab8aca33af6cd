#!/usr/bin/env bash
# Lets the official `openai` package talk to a real server: chat completions in one piece and
# streamed, tools, embeddings, models, refusals; and compares what was charged with the usage.
#
# The package is installed into a folder of its own.
set -euo pipefail

cd "$(dirname "$0")/.."

readonly work=.build-openai
readonly sanguine=.build/debug/sanguine

skip() {
    echo "Skipped: $1. The openai package was not tried." >&2
    exit 0
}

command -v python3 >/dev/null || skip "there is no python3 here"
if [ ! -d "$work/python/lib" ] || ! "$work/python/bin/python" -c 'import openai' 2>/dev/null; then
    python3 -m venv "$work/python" >&2 || skip "python3 has no module 'venv' (python3-venv)"
    "$work/python/bin/pip" --quiet install 'openai>=1,<3' >&2 ||
        skip "openai cannot be installed"
fi

${SWIFT:-swift} build --product sanguine

servers=()
stop() {
    local process
    for process in "${servers[@]}"; do kill "$process" 2>/dev/null || true; done
    wait
}
trap stop EXIT

# Starts a server, and prints its address when it listens.
address=
start() {
    local log=$1
    shift
    : >"$log" # There before anybody looks.
    "$sanguine" "$@" >"$log" 2>&1 &
    servers+=("$!")
    for _ in $(seq 600); do
        address=$(sed -n 's|^listening on \(http://.*\)$|\1|p' "$log")
        if [ -n "$address" ]; then return; fi
        sleep 0.1
    done
    cat "$log" >&2
    echo "'sanguine $1' does not listen after a minute." >&2
    exit 1
}

rm -rf "$work/data"
start "$work/stand-in.log" stand-in --port 0
start "$work/server.log" serve --data "$work/data" --port 0 --admin-port 0 --upstream "$address"

"$work/python/bin/python" Scripts/check-openai.py "$address"
for process in "${servers[@]}"; do kill "$process"; done
wait
servers=()
"$sanguine" ledger verify --data "$work/data"
