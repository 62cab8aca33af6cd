# shellcheck shell=bash
# Starts servers of the debug build, and stops them at the end; for scripts that source it.

readonly sanguine=.build/debug/sanguine

servers=()

# Stops all that were started, and waits for their ends.
stop() {
    local process
    for process in "${servers[@]}"; do kill "$process" 2>/dev/null || true; done
    servers=()
    wait
}
trap stop EXIT

# Starts a server whose output goes to a file; its address is in `address` when it listens.
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
