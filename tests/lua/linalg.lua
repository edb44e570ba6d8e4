-- linalg.lua - linear algebra beyond the rows of its ops: names, properties,
-- what is refused.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"
local helper = require "helper"

local raises, gives = helper.raises, helper.gives
local tests = {}

local A = td.tensor({{4, 1, -2}, {1, 3, 0.5}, {-1, 2, 5}}, "float64")
local I = {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}

local function random(shape, dtype)
  return td.value.random_normal(shape, {dtype = dtype, seed = 5})
end

function tests.names_of_tensorflow()
  for short, long in pairs{inv = "matrix_inverse", det = "matrix_determinant",
                           solve = "matrix_solve", eigh = "self_adjoint_eig",
                           cholesky = "cholesky", matmul = "matmul"} do
    lu.assertEquals(td.linalg[short], td[long])
  end
  raises("did you mean \"inv\"", function() return td.linalg.inw end)
  gives(I, td.linalg.inv(A):matmul(A))
  gives(I, A:matrix_inverse():matmul(A))
end

function tests.large_ones_hold()
  for _, dtype in ipairs{"float32", "float64"} do
    local a = random({3, 70, 70}, dtype) + td.value.eye(70, {dtype = dtype}) * 9
    local at = a:matrix_transpose()
    local near = {atol = dtype == "float32" and 2e-3 or 1e-11}
    local eye = td.zeros_like(a) + td.value.eye(70, {dtype = dtype})
    td.test.close(td.matrix_inverse(a):matmul(a), eye, near)
    td.test.close(a:matmul(td.matrix_solve(a, at)), at, near)
    local q, r = td.qr(a)
    td.test.close(q:matmul(r), a, near)
    td.test.close(q:matmul(q, {transpose_a = true}), eye, near)
    local s, u, v = td.svd(a)
    td.test.close((u * s:expand_dims(-2)):matmul(v, {transpose_b = true}), a,
                  near)
    local e, w = td.self_adjoint_eig(a + at)
    td.test.close((w * e:expand_dims(-2)):matmul(w, {transpose_b = true}),
                  a + at, near)
    local p = a:matmul(at)
    local l = td.cholesky(p)
    td.test.close(l:matmul(l, {transpose_b = true}), p,
                  {rtol = 1e-4, atol = near.atol})
    td.test.close(td.linalg.cholesky_solve(l, at), td.matrix_solve(p, at),
                  {rtol = 1e-2, atol = near.atol})
    td.test.close(td.linalg.logdet(p),
                  select(2, td.linalg.slogdet(p)), {rtol = 1e-4})
  end
end

function tests.without_vectors_there_are_none()
  local s, u, v = td.svd(A, {compute_uv = false})
  gives((td.svd(A)):table(), s)
  lu.assertTrue(u.shape == {0} and v.shape == {0})
  local e, w = td.self_adjoint_eig(A, {compute_v = false})
  gives((td.self_adjoint_eig(A)):table(), e)
  lu.assertTrue(w.shape == {0})
end

function tests.missing_directions_are_filled()
  local q = td.qr(td.value.zeros({3, 0}), {full_matrices = true})
  gives(I, q)
  local _, u = td.svd(td.value.zeros({3, 0}), {full_matrices = true})
  gives(I, u)
end

function tests.diagonals()
  gives({{0, 1, 0}, {0, 0, 2}, {0, 0, 0}}, td.matrix_diag({1.0, 2.0}, {k = 1}))
  gives({{0, 1, 2}, {4, 5, 0}}, td.matrix_diag_part(
    {{4.0, 1.0, 0.0}, {0.0, 5.0, 2.0}, {0.0, 0.0, 0.0}},
    {k = {0, 1}})[":, 0:3"] * {{0.0, 1.0, 1.0}, {1.0, 1.0, 1.0}})
  gives({{9, 2}, {3, 9}}, td.matrix_set_diag({{1.0, 2.0}, {3.0, 4.0}},
                                             {9.0, 9.0}))
  gives(12, td.linalg.trace(A))
  gives({{1, 3}, {2, 4}}, td.matrix_transpose{{1.0, 2.0}, {3.0, 4.0}})
end

function tests.least_squares()
  local a = td.tensor{{1.0, 0.0}, {1.0, 1.0}, {1.0, 2.0}}
  local b = td.tensor{{1.0}, {3.0}, {5.0}}
  gives({{1}, {2}}, td.linalg.lstsq(a, b))
  gives({{1}, {2}}, td.matrix_solve_ls(a, b, {fast = false}))
  raises("deficient rank", td.matrix_solve_ls, {{0.0}}, {{1.0}})
  gives({{0}}, td.matrix_solve_ls({{0.0}}, {{1.0}}, {fast = false}))
end

function tests.small_integers_widen()
  local x = td.tensor({{100, 100}}, "int8")
  gives({{20000}}, td.raw.BatchMatMulV3(x, x, {adj_y = true, Tout = "int32"}))
  local y = td.raw.BatchMatMulV3(x, td.tensor({{0.5}, {0.25}}, "bfloat16"),
                                 {Tout = "bfloat16"})
  gives({{75}}, y:cast "float32")
end

function tests.sums()
  local x, y = td.tensor{{1.0, 2.0}, {3.0, 4.0}}, td.tensor{{0.5, 1.0}, {2, 0}}
  gives(x:matmul(y), td.einsum("ij,jk->ik", x, y))
  gives(x:matmul(y), td.einsum(" ij, jk", {x, y}))
  gives(x:matmul(y):matmul(x), td.einsum("ij,jk,kl->il", x, y, x))
  gives((x * y * x):sum(), td.einsum("ij,ij,ij->", x, y, x))
  gives(x:transpose(), td.einsum("ij->ji", x))
  gives({1, 4}, td.einsum("ii->i", x))
  gives({{{1, 0}, {0, 2}}, {{3, 0}, {0, 4}}}, td.einsum("ij->ijj", x))
  gives(td.stack{x:matmul(y), y:matmul(y)},
        td.einsum("...ij,jk->...ik", td.stack{x, y}, y))
  lu.assertEquals(td.einsum("ij->ji", td.constant(x), {name = "turn"}).op.name,
                  "turn")
  raises("has 2 operands, given 1", td.einsum, "ij,jk->ik", x)
  raises("in the result alone", td.einsum, "ij->ik", x)
  raises("subscript \"j\" is of size 2, and of size 3", td.einsum,
         "ij,jk->ik", x, {{1.0}, {2.0}, {3.0}})
end

function tests.lengths()
  local x = td.tensor{{3.0, -4.0}, {0.0, 5.0}}
  gives(td.sqrt(50.0):item(), td.norm(x))
  gives({5, 5}, td.norm(x, 1))
  gives({7, 5}, td.norm(x, 1, {ord = 1}))
  gives({3, 5}, td.norm(x, 0, {ord = "inf"}))
  raises("ord", td.norm, x, 0, {ord = 3})
end

-- The shapes that TensorFlow's signatures promise; its kernels give a scalar
-- of whatever was in memory.
function tests.without_vectors()
  local x = td.constant{{2.0, 0.0}, {0.0, 1.0}}
  local sess = td.session()
  for _, make in ipairs{
    function() return td.self_adjoint_eig(x, {compute_v = false}) end,
    function() return td.eig(x, {compute_v = false}) end,
    function() return td.svd(x, {compute_uv = false}) end,
  } do
    local edges = {make()}
    local got = sess:run(edges)
    lu.assertEquals(got[1].shape, {2})
    for i = 2, #edges do
      lu.assertEquals(edges[i].shape, {0})
      lu.assertEquals(got[i].shape, {0})
    end
  end
end

-- A V = V E, whatever the order and phase, of pairs of conjugate values too.
function tests.any_eigenvalues()
  local wide = {float32 = "complex64", float64 = "complex128",
                complex64 = "complex64", complex128 = "complex128"}
  for dtype, out in pairs(wide) do
    local x = td.cast(random({3, 7, 7}, "float64"), dtype)
    local e, v = td.eig(x)
    local near = out == "complex64" and 1e-4 or 1e-10
    local function same(a, b)
      lu.assertTrue(td.reduce_max(td.abs(a - b)):item() < near)
    end
    lu.assertEquals(e.dtype, out)
    same(td.matmul(td.cast(x, out), v), v * td.expand_dims(e, -2))
    same(td.sum(td.square(td.abs(v)), -2), 1.0)
    same(td.sum(td.eigvals(x), -1), td.sum(e, -1))
  end
end

function tests.refused()
  raises("is not invertible", td.matrix_inverse, {{1.0, 2.0}, {2.0, 4.0}})
  raises("needs a matrix", function()
    local a = td.constant(A["0:3, 0:2"])
    local q = td.qr(a, {full_matrices = true})
    return td.gradients(q, a)
  end)
  raises("num_cols must be -1 or more", td.matrix_diag, {1.0},
         {num_cols = -2})
  raises("diagonal must have 2 diagonals", td.matrix_diag, {1.0, 2.0},
         {k = {0, 1}})
end

return tests
