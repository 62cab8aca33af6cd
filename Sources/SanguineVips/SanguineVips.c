#include "SanguineVips.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <vips/vips.h>

#define VERSION_AT_LEAST(major, minor)                                                             \
    (VIPS_MAJOR_VERSION > (major) ||                                                               \
     (VIPS_MAJOR_VERSION == (major) && VIPS_MINOR_VERSION >= (minor)))

// MARK: - Start

/// Discards messages of libvips, which would mix with the log of the process.
static void discard(
    const gchar *domain, GLogLevelFlags level, const gchar *message, gpointer data) {
    (void)domain, (void)level, (void)message, (void)data;
}

/// Starts libvips once for the process, with nothing but the four decoders.
static gpointer start_once(gpointer data) {
    (void)data;
    // libvips opens a temporary file for a decoded image of more than this many bytes.
    g_setenv("VIPS_DISC_THRESHOLD", "64m", FALSE);
    g_log_set_handler("VIPS", G_LOG_LEVEL_MASK, discard, NULL);
    if (VIPS_INIT("sanguine")) return GINT_TO_POINTER(FALSE);
    // The caller decides how many images are in progress at once.
    vips_concurrency_set(1);
    // A cached operation would refer to the bytes of an earlier call.
    vips_cache_set_max(0);
    vips_cache_set_max_mem(0);
    vips_cache_set_max_files(0);
    vips_block_untrusted_set(TRUE);
    vips_operation_block_set("VipsForeignLoad", TRUE);
    const char *const decoders[] = {
        "VipsForeignLoadJpeg", "VipsForeignLoadPng", "VipsForeignLoadWebp", "VipsForeignLoadHeif",
    };
    for (size_t index = 0; index < sizeof decoders / sizeof decoders[0]; index++) {
        vips_operation_block_set(decoders[index], FALSE);
    }
    return GINT_TO_POINTER(TRUE);
}

static bool start(void) {
    static GOnce once = G_ONCE_INIT;
    g_once(&once, start_once, NULL);
    return GPOINTER_TO_INT(once.retval);
}

// MARK: - Stopping

struct sanguine_stop {
    atomic_int value;
};

sanguine_stop *sanguine_stop_new(void) { return calloc(1, sizeof(sanguine_stop)); }

void sanguine_stop_set(sanguine_stop *stop) { atomic_store(&stop->value, 1); }

void sanguine_stop_free(sanguine_stop *stop) { free(stop); }

/// The limits of one call, which the thread that evaluates the image examines.
typedef struct {
    const sanguine_stop *stop;
    gint64 deadline;
} watch;

static watch watch_new(sanguine_bounds bounds, const sanguine_stop *stop) {
    gint64 time = bounds.milliseconds > G_MAXINT64 / 2000 ? G_MAXINT64 / 2
                                                          : bounds.milliseconds * 1000;
    return (watch){stop, g_get_monotonic_time() + time};
}

/// Returns `SANGUINE_DONE` while the call may continue.
static sanguine_status watch_status(const watch *watch) {
    if (watch->stop && atomic_load(&((sanguine_stop *)watch->stop)->value)) return SANGUINE_STOPPED;
    return g_get_monotonic_time() > watch->deadline ? SANGUINE_TIMED_OUT : SANGUINE_DONE;
}

static void on_progress(VipsImage *image, VipsProgress *progress, watch *watch) {
    (void)progress;
    if (watch_status(watch) != SANGUINE_DONE) vips_image_set_kill(image, TRUE);
}

/// Ends a call: the limits explain a failure first, because a stopped image looks like a broken one.
static sanguine_status finish(const watch *watch, sanguine_status status) {
    // The text is shared by all threads, so it is not for the caller.
    vips_error_clear();
    if (status == SANGUINE_DONE) return status;
    sanguine_status over = watch ? watch_status(watch) : SANGUINE_DONE;
    return over == SANGUINE_DONE ? status : over;
}

// MARK: - Loading

/// Reads the header; pixels are decoded later, while the bytes still exist.
///
/// - Parameters:
///   - access: Sequential decoding keeps a few lines in memory.
///   - frames: The number of frames to load; -1 for all.
static VipsImage *load(
    const void *bytes, size_t count, sanguine_format format, VipsAccess access, int frames) {
    VipsImage *image = NULL;
    void *input = (void *)bytes;
    // A camera's harmless deviations are warnings, which do not fail.
    VipsFailOn fail_on = VIPS_FAIL_ON_ERROR;
    int result = -1;
    switch (format) {
    case SANGUINE_JPEG:
        result = vips_jpegload_buffer(
            input, count, &image, "access", access, "fail_on", fail_on, NULL);
        break;
    case SANGUINE_PNG:
        result =
            vips_pngload_buffer(input, count, &image, "access", access, "fail_on", fail_on, NULL);
        break;
    case SANGUINE_WEBP:
        result = vips_webpload_buffer(
            input, count, &image, "access", access, "fail_on", fail_on, "n", frames, NULL);
        break;
    case SANGUINE_HEIC:
        result = vips_heifload_buffer(
            input, count, &image, "access", access, "fail_on", fail_on, NULL);
        break;
    }
    return result == 0 ? image : NULL;
}

static bool has_decoder(sanguine_format format) {
    const char *const names[] = {
        [SANGUINE_JPEG] = "jpegload_buffer",
        [SANGUINE_PNG] = "pngload_buffer",
        [SANGUINE_WEBP] = "webpload_buffer",
        [SANGUINE_HEIC] = "heifload_buffer",
    };
    return format >= SANGUINE_JPEG && format <= SANGUINE_HEIC &&
           vips_type_find("VipsOperation", names[format]) != 0;
}

static int number(VipsImage *image, const char *name, int otherwise) {
    int value = otherwise;
    if (vips_image_get_typeof(image, name) == G_TYPE_INT &&
        vips_image_get_int(image, name, &value)) {
        return otherwise;
    }
    return value;
}

static sanguine_facts facts_of(VipsImage *image, sanguine_format format) {
    sanguine_facts facts = {
        .width = vips_image_get_width(image),
        .height = vips_image_get_page_height(image),
        .frames = format == SANGUINE_WEBP ? number(image, VIPS_META_N_PAGES, 1) : 1,
        .orientation = vips_image_get_orientation(image),
        .has_alpha = vips_image_hasalpha(image),
        .is_whole = format == SANGUINE_WEBP || format == SANGUINE_HEIC ||
                    number(image, "interlaced", 0) || number(image, "jpeg-multiscan", 0),
    };
    // libheif applies the orientation of a HEIC image. Frames of an animation have none.
    if (format == SANGUINE_HEIC || facts.frames > 1) facts.orientation = 1;
    if (facts.orientation >= 5) {
        int32_t width = facts.width;
        facts.width = facts.height;
        facts.height = width;
    }
    return facts;
}

/// Decides from the header whether the image may be decoded.
static sanguine_status check(
    VipsImage *image, sanguine_format format, sanguine_bounds bounds, sanguine_facts facts) {
    if (facts.frames > bounds.frames) return SANGUINE_TOO_LARGE;
    if ((int64_t)facts.width * facts.height > bounds.pixels / facts.frames) {
        return SANGUINE_TOO_LARGE;
    }
    const char *coding = NULL;
    if (format == SANGUINE_HEIC &&
        vips_image_get_typeof(image, "heif-compression") == VIPS_TYPE_REF_STRING &&
        vips_image_get_string(image, "heif-compression", &coding) == 0 &&
        strcmp(coding, "hevc") != 0) {
        return SANGUINE_UNSUPPORTED;
    }
    return SANGUINE_DONE;
}

sanguine_status sanguine_examine(
    const void *bytes, size_t count, sanguine_format format, sanguine_facts *facts) {
    if (!start() || !has_decoder(format)) return SANGUINE_UNAVAILABLE;
    VipsImage *image = load(bytes, count, format, VIPS_ACCESS_SEQUENTIAL, 1);
    if (!image) return finish(NULL, SANGUINE_UNREADABLE);
    *facts = facts_of(image, format);
    sanguine_bounds all = {.pixels = INT64_MAX, .frames = INT32_MAX};
    sanguine_status status = check(image, format, all, *facts);
    g_object_unref(image);
    return finish(NULL, status);
}

// MARK: - Saving

/// Replaces the image by a step's result; returns whether the step succeeded.
static bool replace(VipsImage **image, VipsImage *const *next, int result) {
    if (result != 0) return false;
    g_object_unref(*image);
    *image = *next;
    return true;
}

/// The metadata without which pixels have another color, or an animation another speed.
static const char *const needed[] = {
    VIPS_META_ICC_NAME, VIPS_META_PAGE_HEIGHT, VIPS_META_N_PAGES, "delay", "loop",
};

static void *collect(VipsImage *image, const char *name, GValue *value, void *names) {
    (void)image, (void)value;
    g_ptr_array_add(names, g_strdup(name));
    return NULL;
}

static bool is_needed(const char *name) {
    for (size_t index = 0; index < sizeof needed / sizeof needed[0]; index++) {
        if (strcmp(name, needed[index]) == 0) return true;
    }
    return false;
}

/// Removes all metadata, or all that is not needed.
static bool remove_metadata(VipsImage **image, bool keeps_needed) {
    VipsImage *copy = NULL;
    // The resolution is metadata, too.
    int result = vips_copy(*image, &copy, "xres", 1.0, "yres", 1.0, NULL);
    if (!replace(image, &copy, result)) return false;
    GPtrArray *names = g_ptr_array_new_with_free_func(g_free);
    vips_image_map(copy, collect, names);
    for (guint index = 0; index < names->len; index++) {
        const char *name = g_ptr_array_index(names, index);
        if (!keeps_needed || !is_needed(name)) vips_image_remove(copy, name);
    }
    g_ptr_array_free(names, TRUE);
    const void *profile;
    size_t size;
    // A profile that cannot be used may be anything.
    if (vips_image_get_typeof(copy, VIPS_META_ICC_NAME) &&
        (vips_image_get_blob(copy, VIPS_META_ICC_NAME, &profile, &size) ||
         !vips_icc_is_compatible_profile(copy, profile, size))) {
        vips_image_remove(copy, VIPS_META_ICC_NAME);
    }
    return true;
}

/// Converts CMYK and other colors that not every program shows.
static bool convert_colors(VipsImage **image) {
    VipsImage *next = NULL;
    switch (vips_image_get_interpretation(*image)) {
    case VIPS_INTERPRETATION_sRGB:
    case VIPS_INTERPRETATION_RGB:
    case VIPS_INTERPRETATION_RGB16:
    case VIPS_INTERPRETATION_B_W:
    case VIPS_INTERPRETATION_GREY16:
        return true;
    case VIPS_INTERPRETATION_CMYK:
        return replace(
            image, &next,
            vips_icc_transform(
                *image, &next, "srgb", "embedded", TRUE, "input_profile", "cmyk", NULL))
            || replace(
                image, &next, vips_colourspace(*image, &next, VIPS_INTERPRETATION_sRGB, NULL));
    default:
        return replace(
            image, &next, vips_colourspace(*image, &next, VIPS_INTERPRETATION_sRGB, NULL));
    }
}

#if VERSION_AT_LEAST(8, 15)
#define KEEP_PROFILE(image) "keep", VIPS_FOREIGN_KEEP_ICC
#else
// `strip` would also remove the profile. Without it, the resolution is written as Exif.
#define KEEP_PROFILE(image) "strip", vips_image_get_typeof(image, VIPS_META_ICC_NAME) == 0
#endif

/// How an image is encoded.
typedef struct {
    sanguine_format format;
    int quality;
    bool is_lossless;
    /// Whether the colors have half the resolution, as in most photos.
    bool is_subsampled;
} coding;

static int save(VipsImage *image, coding coding, void **bytes, size_t *count) {
    switch (coding.format) {
    case SANGUINE_PNG:
        return vips_pngsave_buffer(
            image, bytes, count, "compression", 6, "filter", VIPS_FOREIGN_PNG_FILTER_ALL,
            KEEP_PROFILE(image), NULL);
    case SANGUINE_WEBP:
        return vips_webpsave_buffer(
            image, bytes, count, "Q", coding.quality, "lossless", coding.is_lossless, "effort", 2,
            KEEP_PROFILE(image), NULL);
    default:
        return vips_jpegsave_buffer(
            image, bytes, count, "Q", coding.quality, "subsample_mode",
            coding.is_subsampled ? VIPS_FOREIGN_SUBSAMPLE_ON : VIPS_FOREIGN_SUBSAMPLE_OFF,
            KEEP_PROFILE(image), NULL);
    }
}

/// Stops the evaluation of the image when the limits are exceeded.
static void follow(VipsImage *image, watch *watch) {
    vips_image_set_progress(image, TRUE);
    // The watch outlives the image.
    g_signal_connect(image, "eval", G_CALLBACK(on_progress), watch);
}

/// Encodes the image, which decodes it, and records the facts of the result.
static sanguine_status encode(VipsImage *image, coding coding, sanguine_output *output) {
    void *bytes = NULL;
    size_t count = 0;
    if (save(image, coding, &bytes, &count)) return SANGUINE_UNREADABLE;
    output->bytes = bytes;
    output->count = count;
    output->format = coding.format;
    output->facts = facts_of(image, coding.format);
    return SANGUINE_DONE;
}

void sanguine_free(sanguine_output *output) {
    g_free(output->bytes);
    output->bytes = NULL;
    output->count = 0;
}

// MARK: - Cleaning

static bool contains(const void *bytes, size_t count, const char *name) {
    const char *start = bytes;
    // The first frame is within the first bytes; a profile may precede it.
    size_t end = count < 1 << 16 ? count : 1 << 16;
    for (size_t index = 0; index + 4 <= end; index++) {
        if (memcmp(start + index, name, 4) == 0) return true;
    }
    return false;
}

static coding coding_of(
    const void *bytes, size_t count, sanguine_format format, VipsImage *image) {
    coding coding = {.format = format, .quality = 90};
    const char *subsampling = NULL;
    if (format == SANGUINE_HEIC) {
        coding.format = vips_image_hasalpha(image) ? SANGUINE_WEBP : SANGUINE_JPEG;
        coding.is_subsampled = true;
    } else if (format == SANGUINE_WEBP) {
        coding.is_lossless = contains(bytes, count, "VP8L");
    } else if (
        format == SANGUINE_JPEG &&
        vips_image_get_typeof(image, "jpeg-chroma-subsample") == VIPS_TYPE_REF_STRING &&
        vips_image_get_string(image, "jpeg-chroma-subsample", &subsampling) == 0) {
        coding.is_subsampled = strncmp(subsampling, "4:4:4", 5) != 0;
    }
    return coding;
}

/// Loads the image as it is displayed.
static VipsImage *load_upright(
    const void *bytes, size_t count, sanguine_format format, sanguine_facts facts) {
    bool is_upright = facts.orientation == 1;
    // Rotation reads lines in another order than they are decoded in.
    VipsImage *image = load(
        bytes, count, format, is_upright ? VIPS_ACCESS_SEQUENTIAL : VIPS_ACCESS_RANDOM,
        facts.frames > 1 ? -1 : 1);
    VipsImage *next = NULL;
    if (!image || is_upright) return image;
    if (replace(&image, &next, vips_autorot(image, &next, NULL))) return image;
    g_object_unref(image);
    return NULL;
}

/// Decodes all frames of an animation, and discards them.
///
/// libvips 8.14 leaks the encoder of an animation whose frames cannot be decoded.
static bool is_complete(
    const void *bytes, size_t count, sanguine_format format, watch *watch) {
    VipsImage *image = load(bytes, count, format, VIPS_ACCESS_SEQUENTIAL, -1);
    if (!image) return false;
    follow(image, watch);
    double average;
    int result = vips_avg(image, &average, NULL);
    g_object_unref(image);
    return result == 0;
}

sanguine_status sanguine_clean(
    const void *bytes, size_t count, sanguine_format format, sanguine_bounds bounds,
    const sanguine_stop *stop, sanguine_output *output) {
    watch watch = watch_new(bounds, stop);
    if (!start() || !has_decoder(format)) return SANGUINE_UNAVAILABLE;
    if (watch_status(&watch) != SANGUINE_DONE) return watch_status(&watch);
    VipsImage *image = load(bytes, count, format, VIPS_ACCESS_SEQUENTIAL, 1);
    if (!image) return finish(&watch, SANGUINE_UNREADABLE);
    sanguine_facts facts = facts_of(image, format);
    sanguine_status status = check(image, format, bounds, facts);
    coding coding = coding_of(bytes, count, format, image);
    g_object_unref(image);
    if (status != SANGUINE_DONE) return finish(&watch, status);

    bool is_moving = facts.frames > 1;
    if (is_moving && !is_complete(bytes, count, format, &watch)) {
        return finish(&watch, SANGUINE_UNREADABLE);
    }
    image = load_upright(bytes, count, format, facts);
    if (!image) return finish(&watch, SANGUINE_UNREADABLE);
    if (convert_colors(&image) && remove_metadata(&image, true)) {
        // For the same reason, the encoding of an animation is not stopped.
        if (!is_moving) follow(image, &watch);
        status = encode(image, coding, output);
    } else {
        status = SANGUINE_UNREADABLE;
    }
    g_object_unref(image);
    return finish(&watch, status);
}

// MARK: - Thumbnails

static VipsImage *scale(const void *bytes, size_t count, int32_t side, const char *profile) {
    VipsImage *image = NULL;
    int result = vips_thumbnail_buffer(
        (void *)bytes, count, &image, side, "height", side, "size", VIPS_SIZE_DOWN, "fail_on",
        VIPS_FAIL_ON_ERROR, profile ? "export_profile" : NULL, profile, NULL);
    return result == 0 ? image : NULL;
}

/// Loads the first frame, scaled down to sRGB.
static sanguine_status load_scaled(
    const void *bytes, size_t count, sanguine_format format, int32_t side, sanguine_bounds bounds,
    const watch *watch, VipsImage **scaled) {
    if (!start() || !has_decoder(format)) return SANGUINE_UNAVAILABLE;
    if (watch_status(watch) != SANGUINE_DONE) return watch_status(watch);
    VipsImage *image = load(bytes, count, format, VIPS_ACCESS_SEQUENTIAL, 1);
    if (!image) return SANGUINE_UNREADABLE;
    // One frame is decoded.
    sanguine_facts facts = facts_of(image, format);
    facts.frames = 1;
    sanguine_status status = check(image, format, bounds, facts);
    g_object_unref(image);
    if (status != SANGUINE_DONE) return status;

    // A profile that cannot be used is ignored.
    *scaled = scale(bytes, count, side, "srgb");
    if (!*scaled) *scaled = scale(bytes, count, side, NULL);
    return *scaled ? SANGUINE_DONE : SANGUINE_UNREADABLE;
}

sanguine_status sanguine_thumbnail(
    const void *bytes, size_t count, sanguine_format format, int32_t side, sanguine_bounds bounds,
    const sanguine_stop *stop, sanguine_output *output) {
    watch watch = watch_new(bounds, stop);
    VipsImage *image = NULL;
    sanguine_status status = load_scaled(bytes, count, format, side, bounds, &watch, &image);
    if (status != SANGUINE_DONE) return finish(&watch, status);
    coding coding = {
        .format = vips_image_hasalpha(image) ? SANGUINE_WEBP : SANGUINE_JPEG,
        .quality = 80,
        .is_subsampled = true,
    };
    if (remove_metadata(&image, false)) {
        follow(image, &watch);
        status = encode(image, coding, output);
    } else {
        status = SANGUINE_UNREADABLE;
    }
    g_object_unref(image);
    return finish(&watch, status);
}

// MARK: - Pixels

/// Converts the image to red, green, blue and opacity of eight bits.
static bool convert_to_rgba(VipsImage **image) {
    VipsImage *next = NULL;
    if (!replace(
            image, &next, vips_colourspace(*image, &next, VIPS_INTERPRETATION_sRGB, NULL))) {
        return false;
    }
    if (!vips_image_hasalpha(*image) &&
        !replace(image, &next, vips_addalpha(*image, &next, NULL))) {
        return false;
    }
    return replace(image, &next, vips_cast_uchar(*image, &next, NULL)) &&
           vips_image_get_bands(*image) == 4;
}

sanguine_status sanguine_pixels(
    const void *bytes, size_t count, sanguine_format format, int32_t side, sanguine_bounds bounds,
    const sanguine_stop *stop, sanguine_output *output) {
    watch watch = watch_new(bounds, stop);
    VipsImage *image = NULL;
    sanguine_status status = load_scaled(bytes, count, format, side, bounds, &watch, &image);
    if (status != SANGUINE_DONE) return finish(&watch, status);
    status = SANGUINE_UNREADABLE;
    if (convert_to_rgba(&image)) {
        follow(image, &watch);
        output->bytes = vips_image_write_to_memory(image, &output->count);
        output->format = format;
        output->facts = (sanguine_facts){
            .width = vips_image_get_width(image),
            .height = vips_image_get_height(image),
            .frames = 1,
            .orientation = 1,
            .has_alpha = true,
        };
        if (output->bytes) status = SANGUINE_DONE;
    }
    g_object_unref(image);
    return finish(&watch, status);
}

// MARK: - Figures

size_t sanguine_allocated(void) { return start() ? vips_tracked_get_mem() : 0; }

const char *sanguine_vips_version(void) { return vips_version_string(); }
