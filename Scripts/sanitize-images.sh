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

vips gaussnoise "$work/noise.png" 160 120 --mean 128 --sigma 40
vips bandjoin "$work/noise.png $work/noise.png $work/noise.png" "$work/plain.v"
vips copy "$work/plain.v" "$work/colors.png" --interpretation srgb
vips invert "$work/colors.png" "$work/inverted.png"
vips bandjoin_const "$work/colors.png" "$work/alpha.png" 128
vips arrayjoin "$work/colors.png $work/inverted.png" "$work/strip.png" --across 1
vips copy "$work/colors.png" "$work/baseline.jpg"
vips copy "$work/colors.png" "$work/progressive.jpg[interlace]"
vips icc_export "$work/colors.png" "$work/print.jpg" --output-profile cmyk
vips copy "$work/colors.png" "$work/interlaced.png[interlace]"
vips copy "$work/colors.png" "$work/lossy.webp"
vips copy "$work/alpha.png" "$work/lossless.webp[lossless]"
vips copy "$work/strip.png" "$work/moving.webp[page-height=120]"
vips copy "$work/colors.png" "$work/photo.heic"
rm "$work/plain.v" "$work/noise.png" "$work/strip.png"

# shellcheck disable=SC2046 # The flags are words.
clang -g -O1 -fsanitize=address,undefined -fno-sanitize-recover=undefined \
  -ISources/SanguineVips/include $(pkg-config --cflags vips) \
  Tests/Sanitizers/images.c Sources/SanguineVips/SanguineVips.c -o "$work/images" \
  $(pkg-config --libs vips) 2>"$work/link" || { cat "$work/link" >&2; exit 1; }
"$work/images" "$work"/*.png "$work"/*.jpg "$work"/*.webp "$work"/*.heic
