/* hello.c - a file system from a library, for install: every file holds one
 * table.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/run/library.h"

static const char text[] = "1,2\n3,4\n";

static td_status *open_it(const char *path, td_file_mode mode, void **file) {
  if (mode != TD_FILE_READ)
    return td_error(TD_UNIMPLEMENTED, "%s cannot be written", path);
  *file = (void *)text;
  return NULL;
}
static td_status *close_it(void *file) {
  (void)file;
  return NULL;
}
static td_status *read_it(void *file, uint64_t offset, void *to, size_t n,
                          size_t *got) {
  size_t left = offset < sizeof text - 1 ? sizeof text - 1 - offset : 0;
  *got = n < left ? n : left;
  memcpy(to, (char *)file + offset, *got);
  return NULL;
}
static td_status *size_of_it(void *file, uint64_t *bytes) {
  (void)file;
  *bytes = sizeof text - 1;
  return NULL;
}
static bool exists(const char *path) {
  return strcmp(path, "hello://table.csv") == 0;
}

static td_status *refuse(const char *path) {
  return td_error(TD_UNIMPLEMENTED, "%s is read only", path);
}
static td_status *append(void *file, const void *bytes, size_t n) {
  (void)file, (void)bytes, (void)n;
  return refuse("hello://");
}
static td_status *sync_it(void *file) {
  (void)file;
  return NULL;
}
static td_status *rename_it(const char *from, const char *to) {
  (void)to;
  return refuse(from);
}
static td_status *list(const char *path, td_str *names) {
  (void)names;
  return refuse(path);
}

static const td_file_system hello = {.prefix = "hello://",
                                     .append = append,
                                     .sync = sync_it,
                                     .rename = rename_it,
                                     .remove = refuse,
                                     .make_folders = refuse,
                                     .list = list,
                                     .open = open_it,
                                     .close = close_it,
                                     .read = read_it,
                                     .size = size_of_it,
                                     .exists = exists};
static const td_file_system *const files[] = {&hello, NULL};
extern const td_library record __asm__("td_library");
const td_library record = {.abi = TD_ABI,
                           .sizes = TD_ABI_SIZES,
                           .name = "hello",
                           .registry = td_modules,
                           .files = files};
