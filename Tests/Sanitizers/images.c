// Cleans and scales images under the address sanitizer: images FILE...
//
// Each file is also used cut off and with changed bytes. Its copy in memory is freed before the
// result is read, because libvips refers to its input until the last object of a call is released.

#include "SanguineVips.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const sanguine_bounds bounds = {.pixels = 50000000, .frames = 300, .milliseconds = 60000};

/// Finds the format as the server does, by the first bytes.
static sanguine_format format_of(const unsigned char *bytes, size_t count) {
    if (count > 12 && memcmp(bytes, "\x89PNG", 4) == 0) return SANGUINE_PNG;
    if (count > 12 && memcmp(bytes, "RIFF", 4) == 0) return SANGUINE_WEBP;
    return count > 12 && memcmp(bytes + 4, "ftyp", 4) == 0 ? SANGUINE_HEIC : SANGUINE_JPEG;
}

/// Reads every byte of a result, and encodes it again from a copy.
static unsigned read_all(sanguine_output *output, sanguine_status status) {
    if (status != SANGUINE_DONE) return 0;
    unsigned sum = 0;
    for (size_t index = 0; index < output->count; index++) {
        sum += ((unsigned char *)output->bytes)[index];
    }
    sanguine_facts facts;
    if (sanguine_examine(output->bytes, output->count, output->format, &facts) != SANGUINE_DONE ||
        facts.orientation != 1) {
        fprintf(stderr, "images: a result is no upright image\n");
        exit(1);
    }
    sanguine_free(output);
    return sum + 1;
}

/// Performs all calls with a copy that ends with its last byte; returns whether it was cleaned.
static int play(const unsigned char *bytes, size_t count) {
    sanguine_format format = format_of(bytes, count);
    sanguine_stop *stop = sanguine_stop_new();
    int cleaned = 0;
    for (int step = 0; step < 3; step++) {
        unsigned char *copy = malloc(count ? count : 1);
        memcpy(copy, bytes, count);
        sanguine_output output = {0};
        sanguine_status status;
        if (step == 0) {
            status = sanguine_clean(copy, count, format, bounds, stop, &output);
            cleaned = status == SANGUINE_DONE;
        } else {
            status = sanguine_thumbnail(
                copy, count, format, step == 1 ? 64 : 4000, bounds, stop, &output);
        }
        memset(copy, 0xAA, count);
        free(copy);
        read_all(&output, status);
    }
    sanguine_stop_set(stop);
    sanguine_output output = {0};
    if (sanguine_clean(bytes, count, format, bounds, stop, &output) != SANGUINE_STOPPED) {
        fprintf(stderr, "images: a stopped call went on\n");
        exit(1);
    }
    sanguine_stop_free(stop);
    return cleaned;
}

int main(int count, char **names) {
    unsigned random = 1;
    int calls = 0;
    for (int number = 1; number < count; number++) {
        FILE *file = fopen(names[number], "rb");
        if (!file) {
            perror(names[number]);
            return 1;
        }
        fseek(file, 0, SEEK_END);
        size_t size = (size_t)ftell(file);
        rewind(file);
        unsigned char *bytes = malloc(size), *changed = malloc(size);
        if (fread(bytes, 1, size, file) != size) return 1;
        fclose(file);
        if (!play(bytes, size)) {
            fprintf(stderr, "images: %s was not cleaned\n", names[number]);
            return 1;
        }
        for (int part = 0; part < 40; part++) {
            play(bytes, size * (size_t)part / 40);
            memcpy(changed, bytes, size);
            for (int change = 0; change <= part % 6; change++) {
                random = random * 1664525 + 1013904223;
                changed[random % (part % 2 ? size : 200)] = (unsigned char)(random >> 24);
            }
            play(changed, size);
            calls += 2;
        }
        free(bytes);
        free(changed);
    }
    printf("%d changed images were cleaned or refused\n", calls);
    return 0;
}
