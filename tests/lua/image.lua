-- image.lua - td.image: pictures turned, cut, distorted. Expected values are
-- TensorFlow's.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"
local helper = require "helper"

local raises, gives = helper.raises, helper.gives
local image = td.image
local tests = {}

local X = td.tensor{{{1}, {2}, {3}}, {{4}, {5}, {6}}}
local PAIR = td.stack{X, X + 10}

function tests.turns()
  gives({{{3}, {2}, {1}}, {{6}, {5}, {4}}}, image.flip_left_right(X))
  gives({{{4}, {5}, {6}}, {{1}, {2}, {3}}}, image.flip_up_down(X))
  gives({{{1}, {4}}, {{2}, {5}}, {{3}, {6}}}, image.transpose_image(X))
  gives({{{3}, {6}}, {{2}, {5}}, {{1}, {4}}}, image.rot90(X))
  gives({{{6}, {5}, {4}}, {{3}, {2}, {1}}}, image.rot90(X, 2))
  gives({{{4}, {1}}, {{5}, {2}}, {{6}, {3}}}, image.rot90(X, -1))
  gives(image.rot90(X), image.rot90(PAIR)[0])
  raises("unknown rank", image.rot90, td.placeholder("float32"))
  raises("{2}", image.flip_up_down, {1, 2})
end

function tests.cuts()
  gives({{{5}, {6}}}, image.crop_to_bounding_box(X, 1, 1, 1, 2))
  gives({{{0}, {0}, {0}, {0}}, {{0}, {1}, {2}, {3}}, {{0}, {4}, {5}, {6}}},
        image.pad_to_bounding_box(X, 1, 1, 3, 4))
  gives(X, image.central_crop(X, 0.5))
  gives({{{2}, {3}}}, image.central_crop({{{1}, {2}, {3}, {4}}}, 0.5))
  gives({{{2}}, {{5}}}, image.resize_image_with_crop_or_pad(X, 2, 1))
  gives({{{0}, {0}, {0}, {0}, {0}}, {{0}, {1}, {2}, {3}, {0}},
         {{0}, {4}, {5}, {6}, {0}}, {{0}, {0}, {0}, {0}, {0}}},
        image.resize_image_with_crop_or_pad(X, 4, 5))
  raises("0 < share", image.central_crop, X, 0)
end

function tests.sizes()
  gives({{{1}, {1.5}, {2}, {2.5}, {3}, {3}}},
        image.resize_images(X, {2, 6})["0:1"])
  gives({{{1}, {3}}, {{4}, {6}}},
        image.resize_images(X, {2, 2}, {align_corners = true}))
  lu.assertTrue(image.resize_images(PAIR, {4, 5},
                                    {method = "nearest"}).shape
                == {2, 4, 5, 1})
  gives({{{3.5}}}, image.resize_images(X, {1, 1}, {method = "area"}))
  raises("bilinear, nearest", image.resize_images, X, {1, 1},
         {method = "cubic"})
end

function tests.numbers()
  gives({{{-1.46385}, {-0.87831}, {-0.29277}}, {{0.29277}, {0.87831},
                                                {1.46385}}},
        image.per_image_standardization(X))
  gives(image.per_image_standardization(X),
        image.per_image_standardization(PAIR)[1])
  gives({{{0}, {0}}}, image.per_image_standardization{{{3.0}, {3.0}}})
  gives({{{0.8204}}}, image.rgb_to_grayscale{{{1.0, 0.5, 2.0}}})
  gives({{{4, 4, 4}}}, image.grayscale_to_rgb{{{4}}})
  local bytes = td.cast({{{0}, {100}, {250}}}, "uint8")
  lu.assertEquals(image.adjust_brightness(bytes, 0.1):table(),
                  {{{25}, {125}, {255}}})
  gives({{{0}, {127}, {255}}},
        image.convert_image_dtype({{{0.0}, {0.5}, {1.0}}}, "uint8"))
  raises("no pictures of string", image.convert_image_dtype,
         td.tensor{{{"a"}}}, "float32")
end

-- ---- what is random ---------------------------------------------------------

local function run(x)
  local sess <close> = td.session()
  return sess:run(x)
end

-- Each picture of a batch by itself, about half of them.
function tests.random_flips()
  td.reset()
  local many = td.tile(td.reshape(X, {1, 2, 3, 1}), {64, 1, 1, 1})
  local y = run(image.random_flip_left_right(many, {seed = 3}))
  local turned, flipped = 0, image.flip_left_right(X)
  for i = 0, 63 do
    local one = y[i]
    local is = td.reduce_all(td.equal(one, flipped)):item()
    lu.assertTrue(is or td.reduce_all(td.equal(one, X)):item())
    if is then turned = turned + 1 end
  end
  lu.assertTrue(turned > 16 and turned < 48, turned)
  lu.assertTrue(run(image.random_flip_up_down(X, {seed = 1})).shape
                == {2, 3, 1})
end

function tests.random_crops()
  td.reset()
  local n = 40
  local base = td.reshape(td.value.range(0, n * 25), {n, 5, 5, 1})
  local y = run(image.random_crop(base, {2, 3, 1}, {seed = 5}))
  lu.assertTrue(y.shape == {n, 2, 3, 1})
  local seen = {}
  for i = 0, n - 1 do
    local t = td.reshape(y[i], {6}):table()
    local at = t[1] - 25 * i
    seen[at] = true
    lu.assertTrue(at % 5 <= 2 and at // 5 <= 3)
    for k = 1, 5 do
      lu.assertEquals(t[k + 1] - t[1], k % 3 + 5 * (k // 3))
    end
  end
  local places = 0
  for _ in pairs(seen) do places = places + 1 end
  lu.assertTrue(places > 6, places)
  lu.assertTrue(run(image.random_crop(X, {1, 2, 1})).shape == {1, 2, 1})
  raises("random_crop: 4 of 3", image.random_crop, X, {1, 4, 1})
  raises("2 numbers", image.random_crop, X, {1, 4})
end

function tests.random_light()
  td.reset()
  local many = td.tile(td.reshape(X, {1, 2, 3, 1}), {16, 1, 1, 1})
  many = td.cast(many, "float32") / 10
  local y = run(image.random_brightness(many, 0.5, {seed = 1}) - many)
  local delta = td.reshape(y[":, 0, 0, 0"], {16, 1, 1, 1})
  td.test.close(y, delta + td.zeros_like(y), {atol = 1e-6})
  lu.assertTrue(td.abs(delta):max():item() <= 0.5)
  lu.assertTrue(delta:max():item() - delta:min():item() > 0.2)
  local z = run(image.random_contrast(many, 0.5, 2, {seed = 2}))
  td.test.close(z:mean{1, 2, 3}, many:mean{1, 2, 3}, {atol = 1e-5})
  raises("0 or above", image.random_brightness, X, -1)
  raises("lower < upper", image.random_contrast, X, 2, 1)
  local c = td.tensor{{{0.2, 0.5, 0.7}}}
  lu.assertTrue(run(image.random_hue(c, 0.2)).shape == {1, 1, 3})
  lu.assertTrue(run(image.random_saturation(c, 0.5, 1.5)).shape == {1, 1, 3})
  raises("0 to 0.5", image.random_hue, c, 0.6)
end

-- Beyond the picture is noise of its kind; what overlaps is the picture.
function tests.glimpses_beyond_the_picture()
  local x = td.reshape(td.value.range(12.0), {1, 3, 4, 1})
  local function glimpse(noise)
    return td.extract_glimpse(x, {43, 44}, {{0.0, 0.0}},
      {uniform_noise = noise == "uniform", noise = noise})
  end
  for _, noise in ipairs{"uniform", "gaussian", "zero"} do
    local y = glimpse(noise)
    lu.assertTrue(y[":, 20:23, 20:24"] == x or
                  td.abs(y[":, 20:23, 20:24"] - x):max():item() == 0, noise)
    lu.assertTrue(y:min():item() >= 0 and y:max():item() <= 11, noise)
  end
  local even, normal = glimpse "uniform", glimpse "gaussian"
  lu.assertAlmostEquals(even:mean():item(), 5.5, 0.3)
  lu.assertAlmostEquals(normal:mean():item(), 5.5, 0.3)
  local function deviation(y)
    return (y - y:mean()):square():mean():item() ^ 0.5
  end
  lu.assertAlmostEquals(deviation(even), 11 / 12^0.5, 0.2)
  lu.assertTrue(deviation(normal) < deviation(even))
  lu.assertEquals(glimpse "zero":sum():item(), 66)
  lu.assertEquals(even:bytes(), glimpse "uniform":bytes())
end

return tests
