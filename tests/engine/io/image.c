/* image.c - pictures: round trips, claims that cannot be true, no memory.
 *
 * What real TensorFlow makes of pictures is in the rows of the decoding ops.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <string.h>
#include <zlib.h>

#include "engine/base/mem.h"
#include "engine/io/image.h"

static td_tensor picture(td_dtype dtype, int64_t channels) {
  td_tensor t;
  td_shape shape = td_shape_of(3, (int64_t[]){5, 7, channels});
  assert_null(td_tensor_new(NULL, dtype, &shape, &t));
  for (int64_t i = 0; i < td_tensor_count(&t); i++)
    td_tensor_set_i(&t, i, i * 37 % 251 * (dtype == TD_UINT16 ? 257 : 1));
  return t;
}

static void test_png_round(void **state) {
  (void)state;
  for (int k = 1; k <= 4; k++)
    for (int wide = 0; wide < 2; wide++) {
      td_tensor t = picture(wide ? TD_UINT16 : TD_UINT8, k), back;
      td_str bytes;
      td_str_init(&bytes);
      assert_null(td_image_encode_png(&t, -1, &bytes));
      assert_int_equal(td_image_sniff(bytes.at, bytes.len), TD_IMAGE_PNG);
      assert_null(td_image_decode_png(bytes.at, bytes.len, 0, t.dtype, &back));
      assert_true(td_tensor_same(&t, &back));
      td_tensor_release(&back);
      td_tensor_release(&t);
      td_str_deinit(&bytes);
    }
}

/* Every prefix is refused, or at least read without harm. */
static void test_prefixes(void **state) {
  td_tensor t = picture(TD_UINT8, 3), back;
  td_jpeg_writing w = {.quality = 90};
  td_jpeg_reading r = {.ratio = 1};
  (void)state;
  for (int jpeg = 0; jpeg < 2; jpeg++) {
    td_str bytes;
    td_str_init(&bytes);
    assert_null(jpeg ? td_image_encode_jpeg(&t, &w, &bytes)
                     : td_image_encode_png(&t, 0, &bytes));
    for (size_t n = 0; n < bytes.len; n++) {
      char *part = td_malloc(n); /* of that size: overruns are seen */
      memcpy(part, bytes.at, n);
      td_status *s = jpeg ? td_image_decode_jpeg(part, n, &r, &back)
                          : td_image_decode_png(part, n, 0, TD_UINT8, &back);
      if (td_ok(s)) td_tensor_release(&back);
      if (n + 20 < bytes.len) assert_non_null(s);
      td_status_release(s);
      td_free(part);
    }
    td_str_deinit(&bytes);
  }
  td_tensor_release(&t);
}

/* A few bytes that claim a picture of gigabytes. */
static void test_claims(void **state) {
  td_tensor t = picture(TD_UINT8, 1), back;
  td_jpeg_writing w = {.quality = 50};
  td_jpeg_reading r = {.ratio = 1};
  td_str bytes;
  (void)state;
  td_str_init(&bytes);
  assert_null(td_image_encode_jpeg(&t, &w, &bytes));
  for (size_t i = 0; i + 9 < bytes.len; i++)
    if (memcmp(bytes.at + i, "\xff\xc0", 2) == 0)
      memcpy(bytes.at + i + 5, "\x4e\x20\x4e\x20", 4); /* 20,000 each way */
  td_status *s = td_image_decode_jpeg(bytes.at, bytes.len, &r, &back);
  assert_non_null(strstr(td_status_message(s), "cannot be true"));
  td_status_release(s);
  td_str_deinit(&bytes);
  td_tensor_release(&t);
  /* 2^28 rows of a pixel, in 67 bytes: the head's checksum is right. */
  static const char tall[] =
      "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\x10\0\0\0\b\0\0\0\0";
  char png[sizeof tall - 1 + 4 + 12] = {0};
  memcpy(png, tall, sizeof tall - 1);
  uint32_t sum = (uint32_t)crc32(0, (const Bytef *)png + 12, 17);
  for (int i = 0; i < 4; i++)
    png[sizeof tall - 1 + i] = (char)(sum >> (24 - 8 * i));
  memcpy(png + sizeof tall - 1 + 4, "\0\0\0\0IDAT\x35\xaf\x06\x1e", 12);
  s = td_image_decode_png(png, sizeof png, 0, TD_UINT8, &back);
  assert_non_null(strstr(td_status_message(s), "cannot be true"));
  td_status_release(s);
  s = td_image_new("PNG", TD_UINT8, 1 << 20, 1 << 20, 3, &back);
  assert_int_equal(td_status_code(s), TD_INVALID_ARGUMENT);
  td_status_release(s);
}

static void test_no_memory(void **state) {
  td_tensor t = picture(TD_UINT8, 3);
  td_jpeg_writing w = {.quality = 90};
  td_jpeg_reading r = {.ratio = 1};
  (void)state;
  for (int jpeg = 0; jpeg < 2; jpeg++)
    for (int nth = 1; nth < 30; nth++) {
      td_tensor back = {0};
      td_str bytes;
      td_str_init(&bytes);
      td_mem_fail(nth, false);
      td_status *s = jpeg ? td_image_encode_jpeg(&t, &w, &bytes)
                          : td_image_encode_png(&t, -1, &bytes);
      if (td_ok(s))
        s = jpeg ? td_image_decode_jpeg(bytes.at, bytes.len, &r, &back)
                 : td_image_decode_png(bytes.at, bytes.len, 0, TD_UINT8, &back);
      td_mem_fail(0, false);
      if (td_ok(s))
        td_tensor_release(&back);
      else
        assert_int_equal(td_status_code(s), TD_RESOURCE_EXHAUSTED);
      td_status_release(s);
      td_str_deinit(&bytes);
    }
  td_tensor_release(&t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_png_round),
      cmocka_unit_test(test_prefixes),
      cmocka_unit_test(test_claims),
      cmocka_unit_test(test_no_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
