/* wav.c - libFuzzer: no bytes may break the reader of WAV files.
 *
 * What it finds is read to the last sample, written, and read again.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "engine/io/wav.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool good) {
  if (!good) abort();
}

static void write_again(const td_wav *w) {
  td_str s;
  td_wav again;
  td_str_init(&s);
  td_status *e = td_wav_write_head(w, &s);
  if (td_ok(e)) {
    td_str_addn(&s, (const char *)w->data,
                (size_t)w->frames * (size_t)w->channels * 2);
    check(td_ok(td_wav_read(s.at, s.len, &again)));
    check(again.frames == w->frames && again.channels == w->channels &&
          again.rate == w->rate);
  }
  td_status_release(e);
  td_str_deinit(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  td_wav w;
  td_status *s = td_wav_read(data, size, &w);
  if (td_ok(s)) {
    volatile float last = 0;
    for (int64_t i = 0; i < w.frames * w.channels; i++)
      last = td_wav_sample(w.data + 2 * i);
    check(last >= -1 && last < 1);
    write_again(&w);
  }
  td_status_release(s);
  return 0;
}
