"""Names of files.

SPDX-License-Identifier: Apache-2.0
"""

from .base import bad, case, i32, op, string

op("ShardedFilename",
   case(string(b"a/b"), i32(1), i32(10)), case(string(b""), i32(0), i32(0)),
   case(string(b"x y"), i32(123456), i32(99999)),
   case(string(b"x"), i32(-1), i32(-12345678)),
   bad("basename", string([b"a"]), i32(1), i32(2)),
   bad("shard", string(b"a"), i32([1]), i32(2)),
   bad("num_shards", string(b"a"), i32(1), i32([[2]])))
op("ShardedFilespec",
   case(string(b"a/b"), i32(10)), case(string(b""), i32(0)),
   case(string(b"x"), i32(1234567)), case(string(b"x"), i32(-1)),
   bad("basename", string([b"a"]), i32(2)),
   bad("num_shards", string(b"a"), i32([2])))
