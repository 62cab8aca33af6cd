#!/usr/bin/env bash
# Uploads changed images and videos to a server in a release build: fuzz-uploads.sh SECONDS
#
#   SEED=<number>  the seed of a run to repeat; it is printed
#
# Status: 0 if every file was stored or refused as documented, and the memory stayed within limits.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck disable=SC2034 # tools.sh reads it.
unchecked="Uploads were not checked."
# shellcheck source=Scripts/tools.sh
. Scripts/tools.sh
command -v vips >/dev/null || skip "there is no command vips" "install libvips-tools"

files=$(mktemp -d)
trap 'rm -rf "$files"' EXIT
Scripts/sample-files.sh "$files"
vips copy "$files/colors.png" "$files/refused.avif"
vips copy "$files/colors.png" "$files/refused.gif"
vips copy "$files/colors.png" "$files/refused.tif"
# Images of many pixels in few bytes, of which one has too many.
vips black "$files/large.png" 6000 6000
vips black "$files/too-large.png" 7100 7100
vips black "$files/large.jpg" 6000 6000
if command -v ffmpeg >/dev/null; then
  make_video() {
    ffmpeg -v error -nostdin -f lavfi -i testsrc=size=64x48:rate=10:duration=1 \
      -f lavfi -i sine=duration=1 -metadata location=+52.5200+013.4050/ "$@"
  }
  make_video -c:v mpeg4 -c:a aac "$files/film.mp4"
  make_video -c:v mpeg4 -c:a aac -movflags frag_keyframe+empty_moov "$files/fragments.mp4"
  make_video -c:v mpeg4 -c:a aac "$files/film.mov"
  make_video -c:v libvpx -c:a libopus "$files/film.webm"
fi
arguments=(--files "$files" --seconds "${1:-3600}")
[ -z "${SEED:-}" ] || arguments+=(--seed "$SEED")
.build-release/release/Fuzz "${arguments[@]}"
