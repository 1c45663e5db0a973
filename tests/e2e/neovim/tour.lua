-- A Neovim without plugins opens a model with fxls, reads its diagnostics, hovers, lists lenses and actions, breaks it
-- and mends it. Prints one line of JSON; any failed assertion is an error on stderr.
--
--   FXLS_COMMAND='["python", "-m", "fxls"]' FXLS_FILE=model.py nvim --headless -u NONE -i NONE -n -c 'luafile tour.lua'
local seen = {}
local clock = vim.loop.hrtime

local function timed(name, seconds, condition)
  local from = clock()
  assert(vim.wait(seconds * 1000, condition, 10), 'not within ' .. seconds .. ' s: ' .. name)
  seen[name .. ' ms'] = (clock() - from) / 1e6
end

local function underlined()
  local texts = {}
  for _, d in ipairs(vim.diagnostic.get(0)) do
    local line = vim.api.nvim_buf_get_lines(0, d.lnum, d.lnum + 1, true)[1]
    table.insert(texts, d.code .. ' ' .. line:sub(d.col + 1, d.end_col))
  end
  return texts
end

local function request(id, method, params)
  local answers = assert(vim.lsp.buf_request_sync(0, method, params, 10000), 'no answer to ' .. method)
  assert(answers[id] and not answers[id].error, vim.inspect(answers))
  return answers[id].result
end

local function run()
  vim.cmd('edit ' .. vim.env.FXLS_FILE)
  vim.bo.filetype = 'python'
  local id = vim.lsp.start_client({
    name = 'fxls',
    cmd = vim.json.decode(vim.env.FXLS_COMMAND),
    root_dir = vim.fn.fnamemodify(vim.env.FXLS_FILE, ':h'),
    init_options = vim.json.decode(vim.env.FXLS_SETTINGS),
  })
  vim.lsp.buf_attach_client(0, id)
  timed('open', 90, function() return #vim.diagnostic.get(0) > 0 end)
  seen.problems = underlined()

  vim.fn.search('class Router')
  vim.cmd('normal! w')
  local hover = request(id, 'textDocument/hover', vim.lsp.util.make_position_params())
  seen.hover = hover.contents.value
  vim.lsp.buf.hover()
  timed('hover window', 5, function() return #vim.api.nvim_list_wins() > 1 end)

  seen.lenses = {}
  local document = { textDocument = vim.lsp.util.make_text_document_params() }
  for _, lens in ipairs(request(id, 'textDocument/codeLens', document)) do
    table.insert(seen.lenses, lens.command and lens.command.title)
  end
  seen.actions = {}
  local range = vim.lsp.util.make_range_params()
  range.context = { diagnostics = {} }
  for _, action in ipairs(request(id, 'textDocument/codeAction', range)) do
    table.insert(seen.actions, action.title)
  end

  local at = vim.fn.search('gate.max()')
  vim.api.nvim_buf_set_lines(0, at - 1, at, true, { '        if self.threshold > 2:' })
  timed('edit, the problem goes', 30, function() return #vim.diagnostic.get(0) == 0 end)
  vim.api.nvim_buf_set_lines(0, at - 1, at, true, { '        if gate.min() < 0.25:' })
  timed('edit, a problem comes', 30, function() return #vim.diagnostic.get(0) == 1 end)
  seen.after_edit = underlined()

  vim.lsp.stop_client(id)
  timed('stop', 10, function() return vim.lsp.client_is_stopped(id) end)
end

local ok, fault = pcall(run)
io.stdout:write(vim.json.encode(ok and seen or { fault = tostring(fault) }) .. '\n')
vim.cmd(ok and 'qa!' or 'cq!')
