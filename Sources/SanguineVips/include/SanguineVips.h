// Examines, cleans and scales untrusted images with libvips.
//
// libvips does not copy the bytes that it decodes. Each function has released every object that
// refers to its input when it returns, so the caller must keep the input only for the call.
//
// The functions block, and may be called on any thread.

#ifndef SANGUINE_VIPS_H
#define SANGUINE_VIPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/// The formats that are decoded; libvips must refuse all others.
typedef enum {
    SANGUINE_JPEG = 1,
    SANGUINE_PNG = 2,
    SANGUINE_WEBP = 3,
    SANGUINE_HEIC = 4,
} sanguine_format;

/// How a call ended.
typedef enum {
    /// It succeeded.
    SANGUINE_DONE = 0,
    /// The input is not a complete image of its format.
    SANGUINE_UNREADABLE = 1,
    /// The image has a coding that is not accepted, such as AV1 in a HEIC file.
    SANGUINE_UNSUPPORTED = 2,
    /// The image has more pixels or frames than allowed.
    SANGUINE_TOO_LARGE = 3,
    /// The caller stopped the call.
    SANGUINE_STOPPED = 4,
    /// The call took longer than allowed.
    SANGUINE_TIMED_OUT = 5,
    /// libvips could not be started, or has no decoder for the format.
    SANGUINE_UNAVAILABLE = 6,
} sanguine_status;

/// Facts from the header of an image.
typedef struct {
    /// The size in pixels for display, with the orientation applied; of one frame.
    int32_t width, height;
    /// The number of frames; 1 for a still image.
    int32_t frames;
    /// The EXIF orientation, 1 to 8.
    int32_t orientation;
    /// Whether the image has transparency.
    bool has_alpha;
    /// Whether the coding needs the whole image in memory: progressive, interlaced, WebP and HEIC.
    bool is_whole;
} sanguine_facts;

/// What a call may use.
typedef struct {
    /// The maximum number of pixels, of all frames together.
    int64_t pixels;
    /// The maximum number of frames.
    int32_t frames;
    /// The maximum time in milliseconds.
    int64_t milliseconds;
} sanguine_bounds;

/// Stops a call from another thread.
typedef struct sanguine_stop sanguine_stop;

/// The bytes of a new image; free them with `sanguine_free`.
typedef struct {
    void *bytes;
    size_t count;
    sanguine_format format;
    sanguine_facts facts;
} sanguine_output;

/// Creates a stop that is not set; free it with `sanguine_stop_free`.
sanguine_stop *sanguine_stop_new(void);
/// Lets calls with this stop end soon.
void sanguine_stop_set(sanguine_stop *stop);
void sanguine_stop_free(sanguine_stop *stop);

/// Reads the header of an image.
sanguine_status sanguine_examine(
    const void *bytes, size_t count, sanguine_format format, sanguine_facts *facts);

/// Decodes an image and encodes it again without metadata, with its orientation applied.
///
/// The color profile is kept. A JPEG, PNG or WebP image keeps its format; a HEIC image becomes JPEG,
/// or WebP if it has transparency.
sanguine_status sanguine_clean(
    const void *bytes, size_t count, sanguine_format format, sanguine_bounds bounds,
    const sanguine_stop *stop, sanguine_output *output);

/// Scales an image down so that its longer side has at most `side` pixels, in sRGB, without metadata.
///
/// The result is JPEG, or WebP if the image has transparency. Of an animation, the first frame is used.
sanguine_status sanguine_thumbnail(
    const void *bytes, size_t count, sanguine_format format, int32_t side, sanguine_bounds bounds,
    const sanguine_stop *stop, sanguine_output *output);

/// Scales an image down so that both sides have at most `side` pixels, and returns its pixels: red,
/// green, blue and opacity, one byte each, not premultiplied, in sRGB, row by row from the top.
///
/// Of an animation, the first frame is used. The output has the format of the input.
sanguine_status sanguine_pixels(
    const void *bytes, size_t count, sanguine_format format, int32_t side, sanguine_bounds bounds,
    const sanguine_stop *stop, sanguine_output *output);

/// Frees the bytes of an output.
void sanguine_free(sanguine_output *output);

/// The number of bytes that libvips has allocated for pixels and not released.
size_t sanguine_allocated(void);

/// The version of libvips in use, such as "8.14.1".
const char *sanguine_vips_version(void);

#endif
