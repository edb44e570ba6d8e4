/* kernel_impl.h - what the files of the kernel share.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_JUPYTER_KERNEL_IMPL_H
#define TD_JUPYTER_KERNEL_IMPL_H

#include <pthread.h>

#include "jupyter/iopub.h"
#include "lua/console/host.h"

typedef struct td_jupyter_kernel td_jupyter_kernel;
typedef struct td_jupyter_worker td_jupyter_worker;

/* ---- worker.c: a line, its thread, and the requests that wait for it ---- */

/* A request in a queue. */
typedef struct td_jupyter_job {
  struct td_jupyter_job *next;
  td_jupyter_request *request;
  uint64_t number; /* in the order of arrival at the kernel */
} td_jupyter_job;

struct td_jupyter_worker {
  td_jupyter_kernel *kernel;
  td_line *line;
  pthread_t thread;
  bool started;         /* has a thread of its own */
  pthread_mutex_t lock; /* of what follows */
  pthread_cond_t changed;
  td_jupyter_job *first, **last;
  td_jupyter_request *current; /* being served */
  uint64_t abort_before;   /* execute requests with lower numbers are refused */
  uint64_t interrupted_at; /* `current` was, when this number was next; or 0 */
  bool stopping;
  int count; /* of the last cell; the worker's thread's alone */
};

/* The line is the worker's from now on; NULL when there is none. */
td_status *td_jupyter_worker_init(td_jupyter_worker *w, td_jupyter_kernel *k,
                                  td_line *line) TD_MUST_USE;
void td_jupyter_worker_deinit(td_jupyter_worker *w);
/* A thread that serves until td_jupyter_worker_stop. */
td_status *td_jupyter_worker_start(td_jupyter_worker *w) TD_MUST_USE;
/* Serves on this thread until td_jupyter_worker_stop. */
void td_jupyter_worker_run(td_jupyter_worker *w);
/* Takes the request over. */
void td_jupyter_worker_add(td_jupyter_worker *w, td_jupyter_request *r,
                           uint64_t number);
/* True while it runs a cell or has one to run. */
bool td_jupyter_worker_has_cell(td_jupyter_worker *w);
/* True while it serves or has something to. */
bool td_jupyter_worker_busy(td_jupyter_worker *w);
/* True when something was there to be interrupted. `number`: of the request
 * that comes next. */
bool td_jupyter_worker_interrupt(td_jupyter_worker *w, uint64_t number);
/* What it serves, or NULL; the caller releases it. */
td_jupyter_request *td_jupyter_worker_served(td_jupyter_worker *w);
/* No more requests: what waits is dropped, what runs may end. */
void td_jupyter_worker_stop(td_jupyter_worker *w);
/* The request this thread serves, or NULL; borrowed. */
td_jupyter_request *td_jupyter_worker_request(void);

/* ---- shell.c: the thread of the shell and stdin sockets ---- */

typedef struct td_jupyter_shell td_jupyter_shell;

td_status *td_jupyter_shell_new(td_jupyter_shell **out, td_jupyter_kernel *k,
                                void *shell, void *input) TD_MUST_USE;
/* Sends what is queued, closes the sockets, ends the thread. */
void td_jupyter_shell_free(td_jupyter_shell *s);
/* Queues a reply; copies the content. */
void td_jupyter_shell_reply(td_jupyter_shell *s, td_jupyter_request *to,
                            const char *type, const char *content, size_t len,
                            const char *metadata);
/* Returns once everything that had arrived is with the workers; the number the
 * next request will get. */
uint64_t td_jupyter_shell_drain(td_jupyter_shell *s);
/* Asks the client of the worker's request; called on its thread, with the
 * interpreter free. */
td_host_outcome td_jupyter_shell_input(td_jupyter_shell *s, td_line *line,
                                       const char *prompt, bool password,
                                       td_str *out);

/* ---- subshell.c: further lines, which clients open and close ---- */

typedef struct td_jupyter_subshell {
  struct td_jupyter_subshell *next;
  char id[37];
  td_jupyter_worker worker;
} td_jupyter_subshell;

td_status *td_jupyter_subshell_create(td_jupyter_kernel *k,
                                      char id[37]) TD_MUST_USE;
/* False when there is none of that name. What it runs is interrupted. */
bool td_jupyter_subshell_delete(td_jupyter_kernel *k, const char *id);
/* Appends their ids, a JSON list. */
void td_jupyter_subshell_list(td_jupyter_kernel *k, td_str *out);
/* Hands a request to the subshell it names, takes it over; false when there is
 * none. */
bool td_jupyter_subshell_add(td_jupyter_kernel *k, const char *id,
                             td_jupyter_request *r, uint64_t number);
/* Calls f for each until it returns true; true when one did. */
bool td_jupyter_subshell_each(td_jupyter_kernel *k,
                              bool (*f)(td_jupyter_worker *w, void *arg),
                              void *arg);
/* Frees those that were deleted and have ended; with `wait`, all of them. */
void td_jupyter_subshell_reap(td_jupyter_kernel *k, bool wait);

/* ---- interrupt.c ---- */

/* Interrupts everything that runs. */
void td_jupyter_interrupt_all(td_jupyter_kernel *k);
/* Sees to interrupts that are not obeyed yet; called every so many ms while it
 * returns true. */
bool td_jupyter_interrupt_follow(td_jupyter_kernel *k);

/* ---- control.c, heartbeat.c, info.c, stdio.c, probe.c ---- */

td_status *td_jupyter_control_start(td_jupyter_kernel *k,
                                    void *socket) TD_MUST_USE;
void td_jupyter_control_join(td_jupyter_kernel *k);
/* Has the control thread send a reply; from any thread. Copies the content. */
void td_jupyter_control_reply(td_jupyter_kernel *k, td_jupyter_request *to,
                              const char *type, const td_str *content);
td_status *td_jupyter_heartbeat_start(td_jupyter_kernel *k,
                                      void *socket) TD_MUST_USE;
void td_jupyter_heartbeat_join(td_jupyter_kernel *k);
/* The content of kernel_info_reply, and of usage_reply. */
void td_jupyter_info(td_str *out);
void td_jupyter_info_usage(td_str *out);
/* C's stdout and stderr, descriptors 1 and 2, and stdin become the notebook's.
 * Before the host is made. */
td_status *td_jupyter_stdio_take(td_jupyter_kernel *k) TD_MUST_USE;
/* After everything was shown: they are the process's again. */
void td_jupyter_stdio_give_back(void);
/* Without arguments: what ZeroMQ there is. With SECONDS and a command: does the
 * kernel that it starts answer? Prints a JSON object; the exit code. */
int td_jupyter_probe_main(int argc, char **argv);

/* ---- kernel.c ---- */

struct td_jupyter_kernel {
  td_jupyter_connection connection;
  char *announced; /* the file that told clients of it; NULL: none */
  td_jupyter_wire wire;
  void *context;       /* ZeroMQ's */
  void *heart_context; /* of the heartbeat, which nothing may delay */
  td_jupyter_iopub *iopub;
  td_jupyter_shell *shell;
  td_host *host;
  td_jupyter_worker main, side;
  td_jupyter_worker debug; /* control's: started by the first debug_request */
  pthread_mutex_t subshell_lock; /* of the two lists */
  td_jupyter_subshell *subshells, *leaving;
  int64_t interrupted_ns; /* control's: when the last interrupt came, or 0 */
  bool told;              /* control's: that it takes long */
  size_t output_limit;
  pthread_t control, heartbeat;
  bool has_control, has_heartbeat;
  int stopping;  /* atomic: a shutdown has begun */
  int terminate; /* an eventfd: control is to end the kernel */
  int interrupt; /* an eventfd: control is to interrupt */
  int mail;      /* an eventfd: control has replies to send */
};

/* Hands a request to the worker that is to serve it. Takes it over. */
void td_jupyter_kernel_dispatch(td_jupyter_kernel *k, td_jupyter_request *r,
                                uint64_t number);
/* Ends all cells, within about a second; called once, by control or a signal.
 */
void td_jupyter_kernel_stop(td_jupyter_kernel *k);
/* Ends the process though a cell still runs, which nothing could stop. */
_Noreturn void td_jupyter_kernel_abandon(td_jupyter_kernel *k);
/* Says that a message was dropped, and why; a flood is said in few words. Takes
 * `why` over. */
void td_jupyter_kernel_dropped(td_status *why);
/* Says something on the real stderr, for whoever started the kernel. */
void td_jupyter_kernel_log(const char *fmt, ...) TD_PRINTF(1, 2);

#endif
