/* lstm_block.h - what the fused LSTM ops and their gradients share.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_LSTM_BLOCK_H
#define TD_LSTM_BLOCK_H

#include "kernels/recurrent.h"

TD_BEGIN

/* Gates, and where each stands in the columns of w and b. */
enum { TD_LSTM_I, TD_LSTM_CI, TD_LSTM_F, TD_LSTM_O, TD_LSTM_GATES };
extern const int td_lstm_icfo[TD_LSTM_GATES], td_lstm_ifco[TD_LSTM_GATES];

/* The operands of a cell after x, and those of its gradient. */
#define TD_LSTM_WEIGHTS                                                        \
  {"cs_prev", "BN"}, {"h_prev", "BN"}, {"w", "S4"}, {"wci", "N"},              \
      {"wcf", "N"}, {"wco", "N"}, {                                            \
    "b", "4"                                                                   \
  }

/* Operands and results of a cell, of a sequence, and of their gradients. */
extern const td_recurrent_arg td_lstm_cell_args[], td_lstm_block_args[];
extern const td_recurrent_arg td_lstm_cell_back_args[];
extern const td_recurrent_arg td_lstm_block_back_args[];
extern const char *const td_lstm_cell_outs[], *const td_lstm_block_outs[];
extern const char *const td_lstm_cell_back_outs[];
extern const char *const td_lstm_block_back_outs[];

/* Steps of a sequence that are computed: seq_len_max, in [0, times]; none where
 * no row or cell is there: sizes beside a 0 may be as large as they like. */
td_status *td_lstm_steps(const td_kernel_ctx *c, const td_recurrent_sizes *z,
                         int64_t *steps) TD_MUST_USE;

TD_END
#endif
