/* vec.c - the growth of td_vec: doubling, with every size checked.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/vec.h"

#include "engine/base/mem.h"

bool td_vec_grow(void **at, size_t *cap, size_t len, size_t more, size_t size) {
  size_t need, bytes;
  if (!td_add(len, more, &need)) return false;
  size_t to = *cap < 8 ? 8 : *cap > SIZE_MAX / 2 ? need : *cap * 2;
  if (to < need) to = need;
  if (!td_mul(to, size, &bytes)) return false;
  void *p = td_realloc(*at, bytes);
  if (!p) return false;
  *at = p;
  *cap = to;
  return true;
}
