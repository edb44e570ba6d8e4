/* checkpoint.c - 100 MiB to the disk and back, as a contestant of the
 * benchmarks: checkpoint ROW FOLDER.
 *
 *   checkpoint_save      a checkpoint of ten tensors, over the one before
 *   checkpoint_save_raw  the same bytes: open, write, fsync, close
 *   checkpoint_load      all tensors of it
 *   checkpoint_load_raw  the same bytes into memory that is taken for them
 *
 * Before each load the file is put out of the page cache; that is not counted.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/io/checkpoint.h"
#include "engine/io/checkpoint_writer.h"

enum { TENSORS = 10, EACH = 10 << 20, PIECE = 1 << 20 };

static char prefix[512], path[600]; /* "FOLDER/ROW", and its data file */
static td_tensor tensors[TENSORS];

static td_status *make_tensors(void) {
  td_shape shape = td_shape_vector(EACH / 4);
  uint64_t x = 1;
  for (int i = 0; i < TENSORS; i++) {
    TD_TRY(td_tensor_new(NULL, TD_FLOAT32, &shape, &tensors[i]));
    uint64_t *at = tensors[i].data;
    for (int k = 0; k < EACH / 8; k++)
      at[k] = x = x * 6364136223846793005u + 1442695040888963407u;
  }
  return NULL;
}

static td_status *failed(const char *what) {
  return td_error(TD_UNAVAILABLE, "%s %s", what, path);
}

/* ---- saving -------------------------------------------------------------- */

static td_status *save(void) {
  char name[32];
  td_checkpoint_writer *w;
  TD_TRY(td_checkpoint_writer_open(prefix, &w));
  td_status *s = NULL;
  for (int i = 0; td_ok(s) && i < TENSORS; i++) {
    snprintf(name, sizeof name, "tensor_%d", i);
    s = td_checkpoint_writer_add(w, name, &tensors[i]);
  }
  if (td_ok(s)) s = td_checkpoint_writer_commit(w);
  td_checkpoint_writer_close(w);
  return s;
}

static td_status *save_raw(void) {
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  bool ok = fd >= 0;
  for (int i = 0; i < TENSORS; i++)
    for (int at = 0; ok && at < EACH; at += PIECE)
      ok = write(fd, (char *)tensors[i].data + at, PIECE) == PIECE;
  ok = ok && fsync(fd) == 0;
  if (fd >= 0) close(fd);
  return ok ? NULL : failed("write");
}

/* ---- loading ------------------------------------------------------------- */

static td_status *load(void) {
  td_tensor t[TENSORS] = {0};
  td_checkpoint *c;
  td_status *s = NULL;
  TD_TRY(td_checkpoint_open(prefix, &c));
  for (size_t i = 0; td_ok(s) && i < TENSORS; i++) {
    td_checkpoint_entry e = td_checkpoint_at(c, i);
    s = td_checkpoint_read(c, &e, NULL, NULL, &t[i]);
  }
  for (int i = 0; i < TENSORS; i++) td_tensor_release(&t[i]);
  td_checkpoint_close(c);
  return s;
}

static td_status *load_raw(void) {
  char *to[TENSORS];
  int fd = open(path, O_RDONLY);
  bool ok = fd >= 0;
  for (int i = 0; i < TENSORS; i++) {
    to[i] = malloc(EACH);
    for (int at = 0; ok && at < EACH; at += PIECE)
      ok = read(fd, to[i] + at, PIECE) == PIECE;
  }
  for (int i = 0; i < TENSORS; i++) free(to[i]);
  if (fd >= 0) close(fd);
  return ok ? NULL : failed("read");
}

static void forget(void) {
  int fd = open(path, O_RDONLY);
  if (fd < 0) return;
  (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  close(fd);
}

/* ---- the contest --------------------------------------------------------- */

static const struct {
  const char *name;
  td_status *(*work)(void), *(*before)(void);
} rows[] = {
    {"checkpoint_save", save, NULL},
    {"checkpoint_save_raw", save_raw, NULL},
    {"checkpoint_load", load, save},
    {"checkpoint_load_raw", load_raw, save_raw},
};

static void end(td_status *s) {
  if (td_ok(s)) return;
  fprintf(stderr, "%s\n", td_status_message(s));
  exit(1);
}

int main(int argc, char **argv) {
  char line[64];
  size_t row = 0;
  if (argc < 3) return 1;
  while (row < TD_COUNT(rows) && strcmp(rows[row].name, argv[1]) != 0) row++;
  if (row == TD_COUNT(rows)) return 1;
  snprintf(prefix, sizeof prefix, "%s/%s", argv[2], argv[1]);
  snprintf(path, sizeof path, "%s.data-00000-of-00001", prefix);
  end(make_tensors());
  if (rows[row].before) end(rows[row].before());
  puts("ready");
  fflush(stdout);
  while (fgets(line, sizeof line, stdin)) {
    if (rows[row].before) forget();
    int64_t start = td_clock_now();
    end(rows[row].work());
    printf("%.9g\n", (double)(td_clock_now() - start) * 1e-9);
    fflush(stdout);
  }
  return 0;
}
