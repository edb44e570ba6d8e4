/* color.c - tests of repl/color.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <string.h>

#include "repl/color.h"

/* A text, and its styles by letter: keyword, number, string, comment, broken,
 * command, match. */
static void colors(void **state) {
  (void)state;
  static const char letters[] = " knscb%m";
  static const struct {
    const char *text, *styles;
    size_t cursor;
  } cases[] = {
      {"local x = 1", "kkkkk     n", SIZE_MAX},
      {"'a' --b", "sss ccc", SIZE_MAX},
      {"'open", "sssss", SIZE_MAX},
      {"[[a\nb", "sssss", SIZE_MAX},
      {"--[[a\nb", "ccccccc", SIZE_MAX},
      {"3x $", "bb b", SIZE_MAX},
      {"%time f()", "%%%%%    ", SIZE_MAX},
      {"!ls -l\nx", "%%%%%%  ", SIZE_MAX},
      {"f(a)", " m m", 1},
      {"f(a)", " m m", 4},
      {"f(a)", "    ", 0},
      {"f(')')", " msssm", 1},
      {"f(')')", "  sss ", 3},
      {"f(", " b", 2},
      {"(]", " b", 1},
      {"[(x)]", "m   m", 0},
  };
  for (size_t i = 0; i < TD_COUNT(cases); i++) {
    unsigned char styles[64];
    char got[64];
    size_t len = strlen(cases[i].text);
    td_edit_color_text(cases[i].text, len, cases[i].cursor, styles);
    for (size_t k = 0; k < len; k++) got[k] = letters[styles[k]];
    got[len] = '\0';
    assert_string_equal(got, cases[i].styles);
  }
}

static void indents(void **state) {
  (void)state;
  static const struct {
    const char *text;
    size_t spaces;
  } cases[] = {
      {"x = 1", 0},
      {"if x then", 2},
      {"if x then y() end", 0},
      {"  for i = 1, 2 do", 4},
      {"f(function()", 2},
      {"  end)", 2},
      {"  elseif x then", 4},
      {"  else", 4},
      {"t = {", 2},
      {"x = '{'", 0},
      {"a\n  b", 2},
      {"repeat", 2},
      {"while a do -- end", 2},
  };
  for (size_t i = 0; i < TD_COUNT(cases); i++)
    assert_int_equal(td_edit_color_indent(cases[i].text, strlen(cases[i].text)),
                     cases[i].spaces);
}

static void dedents(void **state) {
  (void)state;
  static const struct {
    const char *before, *line;
    size_t spaces;
  } cases[] = {
      {"if x then\n  y()\n", "  end", 0},
      {"  if x then\n    y()\n", "    else", 2},
      {"f({\n", "  }", 0},
      {"f(function()\n  if x then\n", "    end", 2},
      {"if x then\n", "  ending", SIZE_MAX},
      {"if x then\n", "  end x", SIZE_MAX},
      {"x = 1\n", "end", SIZE_MAX},
      {"if x then\n", "", SIZE_MAX},
  };
  for (size_t i = 0; i < TD_COUNT(cases); i++) {
    char text[128];
    size_t start = strlen(cases[i].before);
    strcpy(text, cases[i].before);
    strcat(text, cases[i].line);
    assert_int_equal(td_edit_color_dedent(text, start, strlen(text)),
                     cases[i].spaces);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(colors),
                                     cmocka_unit_test(indents),
                                     cmocka_unit_test(dedents)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
