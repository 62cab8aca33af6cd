#!/usr/bin/env bash
# Measures the latency that LiteLLM's proxy adds to a call, with the same model and the same load as
# `Benchmarks --only=functions`.
#
# The proxy is installed from PyPI into its own folder, where later runs of `Benchmarks` find it.
set -euo pipefail

cd "$(dirname "$0")/.."
source Scripts/tools.sh

readonly work=.build-litellm
# shellcheck disable=SC2034 # For skip().
readonly unchecked="The LiteLLM proxy was not measured."

require_python
if [ ! -x "$work/python/bin/litellm" ]; then
    python3 -m venv "$work/python"
    "$work/python/bin/pip" --quiet install 'litellm[proxy]>=1.60,<2' >&2 ||
        skip "litellm cannot be installed" "let pip reach PyPI"
fi

"${SWIFT:-swift}" build --configuration release --scratch-path .build-release --product Benchmarks

.build-release/release/Benchmarks --only=litellm "$@" &
readonly benchmarks=$!

# Ends a process by its id; kills it after five seconds.
end() {
    kill -TERM "$1" 2>/dev/null || return 0
    for _ in $(seq 50); do
        kill -0 "$1" 2>/dev/null || return 0
        sleep 0.1
    done
    kill -KILL "$1" 2>/dev/null || true
}

# Ends everything that the measurement started, even if it failed: the proxy, whose id it writes to
# a file, and the model.
end_all() {
    local process=""
    [ -f "$work/proxy.pid" ] && process=$(cat "$work/proxy.pid")
    rm -f "$work/proxy.pid"
    pkill -TERM -P "$benchmarks" 2>/dev/null || true
    end "$benchmarks"
    # Another program may have the same id by now.
    if [ -n "$process" ] && ps -p "$process" -o args= 2>/dev/null | grep -q litellm; then
        end "$process"
    fi
}
trap end_all EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

wait "$benchmarks"
