/* info.c - what kernel_info_reply tells.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "jupyter/kernel_impl.h"

void td_info(td_str *out) {
  td_str_add(out,
             "{\"status\": \"ok\", \"protocol_version\": \"5.5\", "
             "\"implementation\": \"tide\", "
             "\"implementation_version\": \"" TD_VERSION "\", "
             "\"language_info\": {\"name\": \"lua\", \"version\": \"5.4\", "
             "\"mimetype\": \"text/x-lua\", \"file_extension\": \".lua\", "
             "\"pygments_lexer\": \"lua\", \"codemirror_mode\": \"lua\"}, "
             "\"banner\": \"Tide " TD_VERSION
             ": dataflow graphs in Lua 5.4. ?NAME is help.\", "
             "\"debugger\": false, \"supported_features\": [], "
             "\"help_links\": []}");
}
