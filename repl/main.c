/* main.c - the `tide` command.
 *
 * tide FILE.lua [args] runs a script, -e a string, -i a prompt, a subcommand
 * whatever tide.cli has by that name. Exit codes: 0 success, 1 an error in the
 * script or output that was lost, 2 wrong usage, 71 a worker whose memory is used
 * up, 75 a job that saved its state and wants to be started again, 130 interrupted.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/mem.h"
#include "engine/base/version.h"
#include "jupyter/kernel.h"
#include "lua/console/host.h"
#include "repl/interrupt.h"
#include "repl/prompt.h"
#include "repl/streams.h"

enum { EXIT_ERROR = 1, EXIT_USAGE = 2 };

static const td_frontend terminal = {.kind = "terminal",
                                     .input = td_prompt_input};
static td_host *host;

static const char usage[] =
    "usage: tide [options] [FILE.lua [args]]\n"
    "\n"
    "  FILE.lua [args]   run a script; - reads standard input\n"
    "  -e CODE [args]    run CODE\n"
    "  -i                a prompt (after FILE or CODE, when given)\n"
    "  ops [NAME|--json] the ops there are\n"
    "  doc DIR           write the reference into DIR\n"
    "  checkpoint PATH   what a checkpoint holds; verify, compare, convert it\n"
    "  runs DIR [A B]    the runs below DIR; in what two of them differ\n"
    "  rerun DIR         a run once more, with the same bits\n"
    "  worker ...        run parts of graphs for others (--help: where, how)\n"
    "  top ADDR..        the workers at these addresses, each second\n"
    "  cluster check ..  are a cluster's tasks there, how good are the ways\n"
    "  cluster bench     what the ways of values between workers are worth\n"
    "  keygen [DIR]      a key pair, for a worker or for who attaches to one\n"
    "  kernel [FILE]     a Jupyter kernel (at the connection file)\n"
    "  install-kernel    let Jupyter know Tide (--help: where)\n"
    "  uninstall-kernel  let Jupyter forget it\n"
    "  doctor [--json]   what is installed, what is broken, what helps\n"
    "  -v, --version     print the version\n"
    "  -h, --help        print this\n"
    "\n"
    "Without arguments: a prompt on a terminal, else standard input is run.\n";

/* ---- running ---- */

/* Prints what went wrong; the exit code. */
static int report(td_host_outcome o, td_str *text) {
  if (o == TD_HOST_OK) return 0;
  if (o == TD_HOST_INTERRUPTED) {
    fflush(stdout);
    fprintf(stderr, "interrupted\n");
    return TD_INTERRUPT_EXIT;
  }
  fflush(stdout);
  fprintf(stderr, "tide: %s\n", td_str_c(text));
  return EXIT_ERROR;
}

/* What the command line asks for. */
typedef struct request {
  const char *code, *file;
  bool interactive;
  int rest; /* index of the first argument of the script */
} request;

static int wrong(const char *what, const char *which) {
  fprintf(stderr, "tide: %s%s\n\n%s", what, which, usage);
  return EXIT_USAGE;
}

/* 0, or the exit code (plus 1) to leave with at once. */
static int parse(int argc, char **argv, request *r) {
  int i = 1;
  for (; i < argc && argv[i][0] == '-' && argv[i][1]; i++) {
    const char *a = argv[i];
    if (!strcmp(a, "-h") || !strcmp(a, "--help")) {
      fputs(usage, stdout);
      return 1;
    }
    if (!strcmp(a, "-v") || !strcmp(a, "--version")) {
      puts("tide " TD_VERSION);
      return 1;
    }
    if (!strcmp(a, "-i")) {
      r->interactive = true;
    } else if (!strcmp(a, "-e")) {
      if (++i == argc) return 1 + wrong("-e needs code", "");
      r->code = argv[i];
    } else {
      return 1 + wrong("unknown option ", a);
    }
  }
  if (!r->code && i < argc) r->file = argv[i++];
  r->rest = i;
  return 0;
}

static int run(const request *r, int argc, char **argv, td_str *text) {
  td_host_outcome o = TD_HOST_OK;
  int code = -1;
  const char *name = r->file ? r->file : r->code ? "-e" : "-";
  td_host_args(host, name, argc - r->rest, argv + r->rest);
  if (r->file && !strchr(r->file, '.') && !strchr(r->file, '/') &&
      strcmp(r->file, "-")) {
    o = td_host_command(host, r->file, argc - r->rest, argv + r->rest, &code,
                        text);
    if (o != TD_HOST_OK) return report(o, text);
    if (code >= 0) return code;
  }
  if (r->code)
    o = td_host_string(host, r->code, "=-e", text);
  else if (r->file)
    o = td_host_file(host, r->file, text);
  else if (!r->interactive && !isatty(0))
    o = td_host_file(host, "-", text);
  code = report(o, text);
  if (!code) code = td_host_exit_code(host);
  if (!r->interactive && (r->code || r->file || !isatty(0))) return code;
  td_prompt_run(td_host_line(host));
  return 0;
}

int main(int argc, char **argv) {
  request r = {0};
  td_streams_guard();
  int leave = parse(argc, argv, &r);
  if (leave) return leave - 1;
  if (r.file && !strcmp(r.file, "kernel"))
    return td_jupyter_kernel_main(argc - r.rest, argv + r.rest);
  char *why;
  host = td_host_new(&terminal, &why);
  if (!host) {
    fprintf(stderr, "tide: %s\n", why ? why : "out of memory");
    td_free(why);
    return EXIT_ERROR;
  }
  td_interrupt_listen(td_host_line(host));
  td_str text;
  td_str_init(&text);
  int code = run(&r, argc, argv, &text);
  td_str_deinit(&text);
  td_interrupt_listen(NULL);
  td_host_free(host);
  return code;
}
