/* wav.h - sound in WAV files: 16 bits a sample, not compressed.
 *
 * A file is a list of chunks behind a head; one says what the samples are, one
 * has them. No number in it is trusted: what a chunk claims is compared with
 * the bytes that are there.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_WAV_H
#define TD_WAV_H

#include "engine/base/status.h"
#include "engine/base/str.h"

TD_BEGIN

typedef struct td_wav {
  int64_t frames;   /* samples of each channel */
  int32_t channels; /* 1 or more */
  uint32_t rate;    /* frames a second */
  const uint8_t *data; /* 2 bytes a sample, the channels of a frame together;
                          borrowed */
} td_wav;

/* What the file of `len` bytes has; out->data points into it. */
td_status *td_wav_read(const void *bytes, size_t len, td_wav *out) TD_MUST_USE;
/* Appends all that stands before the samples of such a file. */
td_status *td_wav_write_head(const td_wav *w, td_str *out) TD_MUST_USE;

/* A sample as a number from -1 to 1. */
static inline float td_wav_sample(const uint8_t *at) {
  return (float)(int16_t)(uint16_t)(at[0] | at[1] << 8) * (1.0f / 32768);
}

TD_END
#endif
