-- linalg.lua - factors of matrices and equations (see compare.lua).
-- SPDX-License-Identifier: Apache-2.0

local ALL = {"float32", "float64", "complex64", "complex128"}
local SQUARES = {{{0, 0}}, {{1, 1}}, {{2, 31, 31}}, {{33, 33}}, {{65, 65}}}

return {
  {"MatrixInverse", dtypes = ALL, shapes = SQUARES,
    attrs = {{adjoint = false}, {adjoint = true}}, units = 65536},
  {"MatrixSolve", dtypes = ALL, shapes = {{{33, 33}, {33, 5}},
    {{2, 31, 31}, {2, 31, 1}}, {{65, 65}, {65, 40}}, {{3, 3}, {3, 0}}},
    attrs = {{adjoint = false}, {adjoint = true}}, units = 65536},
  -- Rows of about the same numbers: no result grows.
  {"MatrixTriangularSolve", dtypes = ALL, low = 1, high = 1.2,
    shapes = {{{33, 33}, {33, 5}}, {{2, 1, 31, 31}, {3, 31, 2}},
      {{65, 65}, {2, 65, 1}}},
    attrs = {{lower = true, adjoint = false}, {lower = false, adjoint = true},
      {lower = false, adjoint = false}, {lower = true, adjoint = true}},
    units = 65536},
  {"Lu", dtypes = ALL, shapes = SQUARES, units = 4096},
  {"MatrixDeterminant", dtypes = ALL, shapes = {{{2, 0, 0}}, {{3, 1, 1}},
    {{2, 5, 5}}, {{17, 17}}}, low = -1, high = 1, units = 4096},
  {"LogMatrixDeterminant", dtypes = ALL, shapes = {{{2, 0, 0}}, {{3, 1, 1}},
    {{2, 31, 31}}, {{33, 33}}}, units = 4096},
  {"Qr", dtypes = ALL, shapes = {{{65, 33}}, {{33, 65}}, {{2, 31, 31}},
    {{1, 40}}, {{40, 1}}, {{0, 3}}},
    attrs = {{full_matrices = false}, {full_matrices = true}}, units = 4096},
  -- Few of them are positive definite: the rest is NaN.
  {"Cholesky", dtypes = ALL, shapes = {{{0, 0}}, {{50, 1, 1}}, {{50, 2, 2}},
    {{33, 33}}}, units = 4096},
}
