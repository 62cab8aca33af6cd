#!/usr/bin/env bash
# Measures what LiteLLM's proxy adds to a call, before the same model and under the same load as
# `Benchmarks --only=functions`.
#
# The proxy is installed from PyPI into a folder of its own; `Benchmarks` finds it there from then on.
set -euo pipefail

cd "$(dirname "$0")/.."

readonly work=.build-litellm

skip() {
    echo "Skipped: $1. The LiteLLM proxy was not measured." >&2
    exit 0
}

command -v python3 >/dev/null || skip "there is no python3 here"
if [ ! -x "$work/python/bin/litellm" ]; then
    python3 -m venv "$work/python" >&2 || skip "python3 has no module 'venv' (python3-venv)"
    "$work/python/bin/pip" --quiet install 'litellm[proxy]>=1.60,<2' >&2 ||
        skip "litellm cannot be installed"
fi

"${SWIFT:-swift}" build --configuration release --scratch-path .build-release --product Benchmarks
.build-release/release/Benchmarks --only=litellm "$@"
