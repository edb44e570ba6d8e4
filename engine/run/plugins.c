/* plugins.c - see plugins.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/run/plugins.h"

#include <dlfcn.h>
#include <glob.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/str.h"
#include "engine/base/vec.h"

static TD_VEC(td_plugin) plugins; /* written by open_all alone */

/* Without memory it is as if it were not there. */
static void open_one(const char *path) {
  td_plugin p = {.path = td_strdup(path)};
  td_status *s = td_library_load(path, &p.library);
  if (!td_ok(s)) p.why = td_strdup(td_status_message(s));
  td_status_release(s);
  if (p.path && td_vec_push(&plugins, p)) return;
  td_free((void *)p.path);
  td_free((void *)p.why);
}

static void open_listed(const char *list) {
  td_str path;
  td_str_init(&path);
  for (const char *at = list; *at;) {
    size_t n = strcspn(at, ":");
    td_str_clear(&path);
    td_str_addn(&path, at, n);
    if (n > 0 && !path.failed) open_one(td_str_c(&path));
    at += n + (at[n] == ':');
  }
  td_str_deinit(&path);
}

/* A program that has the engine in it has no folder of plugins. */
static void open_beside(void) {
  Dl_info here;
  glob_t found;
  td_str pattern;
  const char *slash;
  if (!dladdr((const void *)td_plugin_at, &here) || !here.dli_fname ||
      !strstr(here.dli_fname, "libtide.so") ||
      !(slash = strrchr(here.dli_fname, '/')))
    return;
  td_str_init(&pattern);
  td_str_addn(&pattern, here.dli_fname, (size_t)(slash - here.dli_fname));
  td_str_add(&pattern, "/libtide_*.so");
  if (!pattern.failed && glob(td_str_c(&pattern), 0, NULL, &found) == 0) {
    for (size_t i = 0; i < found.gl_pathc; i++) open_one(found.gl_pathv[i]);
    globfree(&found);
  }
  td_str_deinit(&pattern);
}

static void open_all(void) {
  const char *list = getenv("TIDE_PLUGINS");
  if (list)
    open_listed(list);
  else
    open_beside();
}

const td_plugin *td_plugin_at(int i) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, open_all);
  return i < (int)plugins.len ? &plugins.at[i] : NULL;
}
