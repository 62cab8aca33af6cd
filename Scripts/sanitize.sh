#!/usr/bin/env bash
# Runs the tests under the thread sanitizer, and a server under the address sanitizer and the fuzzer.
# Cleans and scales changed images under the address sanitizer.
#
#   PARTS=threads,addresses,images   the parts to run
#   SUITES=<regex>            only the suites with a matching name, such as 'SanguineTests\.Balance'
#   CASES=100000              the number of bodies, and of streams, that the fuzzer sends
#
# The reports are kept in .build/sanitize. Both builds have their own scratch folders, so the first run
# takes as long as a clean build.
# Status: 0 if nothing was reported, 1 if something was reported, 2 if it could not start.
set -euo pipefail
cd "$(dirname "$0")/.."

swift=${SWIFT:-swift} parts=${PARTS:-threads,addresses,images} suites=${SUITES:-.} cases=${CASES:-100000}
[[ $parts =~ ^(threads|addresses|images)(,(threads|addresses|images))*$ ]] ||
  { echo "Set PARTS to some of 'threads,addresses,images'." >&2; exit 2; }
[[ $cases =~ ^[1-9][0-9]*$ ]] || { echo "Set CASES to a whole number, at least 1." >&2; exit 2; }

reports=$PWD/.build/sanitize
rm -rf "$reports" && mkdir -p "$reports"
status=0

if [[ $parts == *threads* ]]; then
  build=(--sanitize=thread --scratch-path .build-thread)
  export SANGUINE_THREAD_SANITIZER=1
  "$swift" build --build-tests "${build[@]}"
  # A report does not end the process, so that one run shows all reports.
  TSAN_OPTIONS="halt_on_error=0 exitcode=0 log_path=$reports/thread suppressions=$PWD/Tests/Sanitizers/thread-suppressions.txt" \
    SANGUINE_FUZZ_LIMIT=${SANGUINE_FUZZ_LIMIT:-1000} STOP_CALLS=${STOP_CALLS:-100} \
    SANGUINE_TEST_PATIENCE=${SANGUINE_TEST_PATIENCE:-10} \
    "$swift" test --skip-build "${build[@]}" --disable-xctest --filter "$suites" || status=1
  unset SANGUINE_THREAD_SANITIZER
fi

if [[ $parts == *addresses* ]]; then
  build=(--configuration release --sanitize=address --scratch-path .build-address)
  "$swift" build "${build[@]}" --product sanguine
  "$swift" build "${build[@]}" --product Fuzz
  # Swift's runtime keeps its allocations for types until the process ends. Freed memory stays in
  # quarantine for a while, and the sanitizer's allocator returns none: only the plain fuzzer checks
  # for growth closely.
  ASAN_OPTIONS="detect_leaks=0 quarantine_size_mb=16 log_path=$reports/address" \
    .build-address/release/Fuzz --server .build-address/release/sanguine \
    --bodies "$cases" --streams "$cases" --growth 512 || status=1
fi

if [[ $parts == *images* ]]; then
  # The sanitizer only instruments our calls: it also sees that libvips reads a freed input.
  ASAN_OPTIONS="log_path=$reports/images" Scripts/sanitize-images.sh || status=1
fi

found=$(find "$reports" -type f -size +0 | wc -l)
if ((found > 0)); then
  # Unlike grep and head in a pipe, awk reads to the end, and succeeds without a match.
  awk '/^SUMMARY/ {count[$0]++} END {for (line in count) print count[line], line}' "$reports"/* |
    sort -rn | awk 'NR <= 50'
  echo "$found processes reported errors; the reports are in .build/sanitize." >&2
  status=1
fi
exit "$status"
