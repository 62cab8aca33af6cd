#!/usr/bin/env bash
# Makes small images and videos in an empty folder: sample-files.sh FOLDER
#
# The command `vips` makes images in all formats that the server decodes, and in some that it refuses.
# With exiftool they have a location. FFmpeg, if it is installed, makes videos.
set -euo pipefail
[ -d "${1:-}" ] || { echo "Run: $0 FOLDER" >&2; exit 2; }
folder=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

vips gaussnoise "$work/noise.png" 160 120 --mean 128 --sigma 40
vips bandjoin "$work/noise.png $work/noise.png $work/noise.png" "$work/plain.v"
vips copy "$work/plain.v" "$folder/colors.png" --interpretation srgb
vips invert "$folder/colors.png" "$folder/inverted.png"
vips bandjoin_const "$folder/colors.png" "$folder/alpha.png" 128
vips arrayjoin "$folder/colors.png $folder/inverted.png" "$work/strip.png" --across 1
vips copy "$folder/colors.png" "$folder/baseline.jpg"
vips copy "$folder/colors.png" "$folder/progressive.jpg[interlace]"
vips icc_export "$folder/colors.png" "$folder/print.jpg" --output-profile cmyk
vips copy "$folder/colors.png" "$folder/interlaced.png[interlace]"
vips copy "$folder/colors.png" "$folder/lossy.webp"
vips copy "$folder/alpha.png" "$folder/lossless.webp[lossless]"
vips copy "$work/strip.png" "$folder/moving.webp[page-height=120]"
vips copy "$folder/colors.png" "$folder/photo.heic"

if command -v exiftool >/dev/null; then
  for image in baseline.jpg colors.png lossy.webp photo.heic; do
    cp "$folder/$image" "$folder/place-$image"
    exiftool -q -q -m -overwrite_original -n -Orientation=6 -GPSLatitude=52.52 -GPSLatitudeRef=N \
      -XMP:City=Berlin "$folder/place-$image"
  done
fi
