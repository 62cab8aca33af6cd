#!/usr/bin/env bash
# Compiles our calls of libvips with the address sanitizer, and runs them on changed images that the
# command `vips` makes.
#
# Status: 0 if nothing was reported.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck disable=SC2034 # tools.sh reads it.
unchecked="The calls of libvips were not checked."
# shellcheck source=Scripts/tools.sh
. Scripts/tools.sh
command -v vips >/dev/null || skip "there is no command vips" "install libvips-tools"
command -v clang >/dev/null || skip "there is no clang" "put the folder of swift into PATH"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

Scripts/sample-files.sh "$work"

# shellcheck disable=SC2046 # The flags are words.
clang -g -O1 -fsanitize=address,undefined -fno-sanitize-recover=undefined \
  -ISources/SanguineVips/include $(pkg-config --cflags vips) \
  Tests/Sanitizers/images.c Sources/SanguineVips/SanguineVips.c -o "$work/images" \
  $(pkg-config --libs vips) 2>"$work/link" || { cat "$work/link" >&2; exit 1; }
"$work/images" "$work"/*.png "$work"/*.jpg "$work"/*.webp "$work"/*.heic
