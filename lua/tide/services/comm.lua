--- services/comm.lua - what a notebook's page asks of channels.
--
-- SPDX-License-Identifier: Apache-2.0

return require "tide.ui.channels".services
