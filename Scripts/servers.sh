# shellcheck shell=bash
# Starts servers of the debug build, and stops them at the end. For scripts that source this file.

readonly sanguine=.build/debug/sanguine

servers=()

# Stops all started servers, and waits until they have ended.
stop() {
    local process
    for process in "${servers[@]}"; do kill "$process" 2>/dev/null || true; done
    servers=()
    wait
}
trap stop EXIT

# Starts a server with its output in a file, and waits until `address` contains its address.
address=
start() {
    local log=$1
    shift
    : >"$log" # Must exist before it is read.
    "$sanguine" "$@" >"$log" 2>&1 &
    servers+=("$!")
    for _ in $(seq 600); do
        address=$(sed -n 's|^listening on \(http://.*\)$|\1|p' "$log")
        if [ -n "$address" ]; then return; fi
        sleep 0.1
    done
    cat "$log" >&2
    echo "'sanguine $1' did not start within a minute. See its output above." >&2
    exit 1
}
