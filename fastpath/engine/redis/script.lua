-- Stores one batch of publications in one atomic step: finds retries, numbers what is new, appends it to the logs of its
-- groups, and brings positions and snapshots up to date.
--
-- KEYS[1]  the prefix of all keys
-- ARGV[1]  known epoch: the highest that the node has seen
-- ARGV[2]  entries that a log keeps
-- ARGV[3]  time in ms, on this server's clock, after which nothing is stored; 0: never
-- ARGV[4]  MessagePack [groups, version, used groups, subjects, publishers, rows, whether one of them replaces, traces]:
--          used groups: group, number of its subjects, and so on; the subjects stand in that order;
--          rows: seven values each: index of the subject (below zero: standard quality), bytes of the payload, bytes of the
--          content for the snapshot (0: none), [field, bytes of its value, ...] for the snapshot or false, index of the
--          publisher, number of the publication, whether no field of before stays in the snapshot: false, true, or names of
--          such fields as are not known here;
--          traces: the context of a row's trace by the number of the row, or false
-- ARGV[5]  payload, content and values of all rows, one after the other (cmsgpack of Redis 7 takes no binary strings)
-- Answer   [epoch, time in ms, [group, number of its last entry in this epoch, ...], one answer a row]:
--          sequence number (0: standard quality) | "epoch-seq": stored before | "stale" | "out_of_order"
--
-- Every path writes, so that a WAIT after it waits for all that came before.
local call, unpack, format = redis.call, unpack, string.format
local prefix = KEYS[1]
local known, maxlen = tonumber(ARGV[1]), ARGV[2]
local groups, version, used, subjects, publishers, rows, replaces, traces = unpack(cmsgpack.unpack(ARGV[4]))

local CHUNK = 4000              -- values that one command may take: Lua's stack is bounded
local REMEMBERED_MINUTES = 3    -- publications are found again for at least so long
local LAST_SECONDS = 172800     -- a publisher's last number is kept one to two days

local time = call('TIME')
local seconds = tonumber(time[1])
local ms = time[1] .. format('%03d', math.floor(time[2] / 1000))
-- What lay in a broken network all the while must not be stored now: it was refused, and others went on since then.
local until_ms = tonumber(ARGV[3])
if until_ms > 0 and tonumber(ms) > until_ms then
  return redis.error_reply('LATE ' .. ms .. ' the batch came too late')
end

-- The data set, and its epoch.

local meta_key = prefix .. ':meta'
local names = {'rid', 'epoch', 'groups', 'version', 'minute', 'replaced'}
for i = 1, #used, 2 do names[#names + 1] = 'l' .. used[i] end
local meta = call('HMGET', meta_key, unpack(names))
if meta[3] and (tonumber(meta[3]) ~= groups or tonumber(meta[4]) ~= version) then
  return redis.error_reply('FASTPATH the data in Redis is of version ' .. meta[4] .. ' with ' .. meta[3] ..
    ' groups, this server of version ' .. version .. ' with ' .. groups .. ': choose another redis_prefix')
end
-- Time goes on also when a new primary's clock is behind: what is kept by minutes must be found again.
local minute = math.max(math.floor(seconds / 60), tonumber(meta[5] or 0))
local update = {'minute', format('%.0f', minute)}
local rid = string.match(call('INFO', 'replication'), 'master_replid:(%x+)')
local epoch = tonumber(meta[2] or seconds)  -- begins with the time: an emptied Redis never comes back to an old epoch
if meta[1] ~= rid or epoch < known then     -- another primary, or one that has lost what somebody has seen
  epoch = math.max(epoch, known) + 1
  update = {'minute', update[2], 'rid', rid, 'epoch', format('%.0f', epoch), 'groups', groups, 'version', version}
end
local e = format('%.0f', epoch)
local e_ = e .. '-'

-- What is known of the publishers.

local day = math.floor(minute / 1440)
local last = {}    -- by publisher: its last number
local runs = {}    -- by publisher: what this batch adds, runs of numbers without a gap
local stored = {}  -- by publisher: runs stored before, newest first, as far as they were looked at
if #publishers > 0 then
  local found = call('HMGET', prefix .. ':p:' .. day, unpack(publishers))
  local missing, at = {}, {}
  for p = 1, #publishers do
    runs[p] = {}
    if found[p] then last[p] = tonumber(found[p])
    else missing[#missing + 1] = publishers[p]; at[#at + 1] = p end
  end
  if #missing > 0 then
    found = call('HMGET', prefix .. ':p:' .. (day - 1), unpack(missing))
    for k = 1, #missing do last[at[k]] = tonumber(found[k] or 0) end
  end
end

local function runs_key(p, at) return prefix .. ':d:' .. format('%.0f', at) .. ':' .. publishers[p] end

for p = 1, #publishers do call('LLEN', runs_key(p, minute)) end

-- Load runs of the publisher until one begins at or before the number; the one that does, or nil.
local function stored_run(p, number)
  local held = stored[p]
  if not held then held = {minute = minute + 1, left = 0}; stored[p] = held end
  while #held == 0 or held[#held].first > number do
    if held.left == 0 then
      held.minute = held.minute - 1
      if held.minute < minute - REMEMBERED_MINUTES - 1 then return nil end
      held.key = runs_key(p, held.minute)
      held.left = call('LLEN', held.key)
    else
      local from = math.max(held.left - 100, 0)
      local found = call('LRANGE', held.key, from, held.left - 1)
      for k = #found, 1, -1 do
        local first, final, of, seqs = string.match(found[k], '^(%d+):(%d+):(%d+):(.*)$')
        held[#held + 1] = {first = tonumber(first), last = tonumber(final), epoch = of .. '-', text = seqs}
      end
      held.left = from
    end
  end
  local low, high = 1, #held  -- the first in this order that begins at or before the number
  while low < high do
    local middle = math.floor((low + high) / 2)
    if held[middle].first <= number then high = middle else low = middle + 1 end
  end
  return held[low]
end

-- What became of a publication whose number is not above its publisher's last.
local function find(p, number)
  local run
  for k = #runs[p], 1, -1 do
    if runs[p][k].first <= number then run = runs[p][k]; break end
  end
  run = run or stored_run(p, number)
  if not run then return 'stale' end
  if number > run.last then return 'out_of_order' end
  if run.text then
    for seq in string.gmatch(run.text, '%d+') do run[#run + 1] = seq end
    run.text = nil
  end
  return run.epoch .. run[number - run.first + 1]
end

-- Where groups and subjects stand.

local logs, log_of, seqs = {}, {}, {}
do
  local s = 0
  for i = 1, #used, 2 do
    local g, count = used[i], used[i + 1]
    local before = meta[6 + (i + 1) / 2] or '0-0'
    local of, n = string.match(before, '(%d+)-(%d+)')
    local log = {
      group = g, key = prefix .. ':l:{' .. g .. '}', from = s + 1, to = s + count, prev = false, grown = false,
      n = tonumber(n),
    }
    if of ~= e then log.n = 0; log.prev = before end
    logs[#logs + 1] = log
    -- Redis takes nothing back: were one of these of another type, it has to be seen before anything is written.
    call('XLEN', log.key)
    call('HLEN', prefix .. ':n:{' .. g .. '}')
    local found = call('HMGET', prefix .. ':s:{' .. g .. '}', unpack(subjects, s + 1, s + count))
    for k = 1, count do
      s = s + 1
      log_of[s] = log
      local position = found[k]
      seqs[s] = position and tonumber(string.sub(position, string.find(position, '-', 1, true) + 1)) or 0
    end
  end
end

-- How often the fields of subjects were replaced, and the names of those since then; nobody has to ask before the first time.

local rounds = {}
if replaces or meta[6] then
  for _, log in ipairs(logs) do
    local marks = {}
    for s = log.from, log.to do marks[#marks + 1] = subjects[s] .. '\0' end
    local found = call('HMGET', prefix .. ':n:{' .. log.group .. '}', unpack(marks))
    for k = 1, #marks do
      if found[k] then
        local number, packed = string.match(found[k], '^(%d+) (.*)$')
        rounds[log.from + k - 1] = {number = tonumber(number), names = cmsgpack.unpack(packed)}
      end
    end
  end
  if replaces then update[#update + 1] = 'replaced'; update[#update + 1] = '1' end
end

-- The rows.

local fields_of = {}  -- by subject: what the batch sets
local answers, moved, contents, content_seqs = {}, {}, {}, {}
local blob, at = ARGV[5], 0

-- The next bytes of the blob.
local function take(length)
  at = at + length
  return string.sub(blob, at - length + 1, at)
end

for i = 1, #rows, 7 do
  local s, fields, p, number = rows[i], rows[i + 3], rows[i + 4], rows[i + 5]
  if number <= last[p] then
    answers[#answers + 1] = find(p, number)
    at = at + rows[i + 1] + rows[i + 2]
    if fields then
      for k = 2, #fields, 2 do at = at + fields[k] end
    end
  else
    local payload = take(rows[i + 1])
    local seq, standard = '0', s < 0
    if standard then
      s = -s
      answers[#answers + 1] = 0
    else
      local new = seqs[s] + 1
      seqs[s] = new
      moved[s] = true
      seq = tostring(new)
      answers[#answers + 1] = new
    end
    local log = log_of[s]
    local n = log.n + 1
    log.n = n
    local context = traces and traces[(i + 6) / 7]
    if context then
      local values = {'s', subjects[s], 'q', seq, 't', ms, 'p', payload, 'c', context}
      if log.prev and not log.grown then values[11], values[12] = 'prev', log.prev end
      if log.grown then
        call('XADD', log.key, e_ .. n, unpack(values))
      else
        call('XADD', log.key, 'MAXLEN', '~', maxlen, e_ .. n, unpack(values))
      end
    elseif log.grown then
      call('XADD', log.key, e_ .. n, 's', subjects[s], 'q', seq, 't', ms, 'p', payload)
    elseif log.prev then
      call('XADD', log.key, 'MAXLEN', '~', maxlen, e_ .. n, 's', subjects[s], 'q', seq, 't', ms, 'p', payload,
        'prev', log.prev)
    else
      call('XADD', log.key, 'MAXLEN', '~', maxlen, e_ .. n, 's', subjects[s], 'q', seq, 't', ms, 'p', payload)
    end
    log.grown = true
    if rows[i + 2] > 0 then
      contents[s], content_seqs[s] = take(rows[i + 2]), standard and '0 0 ' or (e .. ' ' .. seq .. ' ')
      if rows[i + 6] then
        local round = rounds[s] or {number = 0, names = {}}
        rounds[s], fields_of[s] = round, nil
        round.number, round.replaced = round.number + 1, true
        if type(rows[i + 6]) == 'table' then
          for _, name in ipairs(rows[i + 6]) do round.names[#round.names + 1] = name end
        end
      end
      if fields then
        local set = fields_of[s] or {}
        fields_of[s] = set
        for k = 1, #fields, 2 do set[fields[k]] = take(fields[k + 1]) end
      end
    end
    local run = runs[p][#runs[p]]
    if run and run.last + 1 == number then
      run.last = number
    else
      run = {first = number, last = number, epoch = e_}
      runs[p][#runs[p] + 1] = run
    end
    run[#run + 1] = seq
    last[p] = number
  end
end

-- What they leave behind.

local function put(key, values)
  for from = 1, #values, CHUNK do call('HSET', key, unpack(values, from, math.min(from + CHUNK - 1, #values))) end
end

local ends = {}
for _, log in ipairs(logs) do
  if log.grown then
    local positions, snapshot = {}, {}
    for s = log.from, log.to do
      if moved[s] then
        positions[#positions + 1] = subjects[s]
        positions[#positions + 1] = e_ .. seqs[s]
      end
      if contents[s] then
        snapshot[#snapshot + 1] = subjects[s]
        snapshot[#snapshot + 1] = ms .. ' ' .. content_seqs[s] .. contents[s]
      end
      local round, tag, gone = rounds[s], '', {}
      local set = fields_of[s] or {}
      if round and (round.replaced or next(set)) then
        tag = 'r' .. format('%.0f', round.number) .. ' '
        local there, list = {}, {}
        for _, name in ipairs(round.names) do
          if not round.replaced then there[name] = true
          elseif not set[name] then gone[#gone + 1] = subjects[s] .. '\0' .. name end
        end
        for name in pairs(set) do there[name] = true end
        for name in pairs(there) do list[#list + 1] = name end
        snapshot[#snapshot + 1] = subjects[s] .. '\0'
        snapshot[#snapshot + 1] = format('%.0f', round.number) .. ' ' .. cmsgpack.pack(list)
      end
      for name, value in pairs(set) do
        snapshot[#snapshot + 1] = subjects[s] .. '\0' .. name
        snapshot[#snapshot + 1] = tag .. value
      end
      for from = 1, #gone, CHUNK do
        call('HDEL', prefix .. ':n:{' .. log.group .. '}', unpack(gone, from, math.min(from + CHUNK - 1, #gone)))
      end
    end
    put(prefix .. ':s:{' .. log.group .. '}', positions)
    put(prefix .. ':n:{' .. log.group .. '}', snapshot)
    update[#update + 1] = 'l' .. log.group
    update[#update + 1] = e_ .. log.n
  end
  if log.n > 0 then
    ends[#ends + 1] = log.group
    ends[#ends + 1] = log.n
  end
end

local numbers = {}
for p = 1, #publishers do
  if #runs[p] > 0 then
    local texts = {}
    for k, run in ipairs(runs[p]) do
      texts[k] = format('%.0f:%.0f:%s:', run.first, run.last, e) .. table.concat(run, ',')
    end
    local key = runs_key(p, minute)
    local before = 0
    for from = 1, #texts, CHUNK do
      local to = math.min(from + CHUNK - 1, #texts)
      before = call('RPUSH', key, unpack(texts, from, to)) - (to - from + 1)
    end
    if before == 0 then call('EXPIRE', key, 60 * (REMEMBERED_MINUTES + 1)) end
    numbers[#numbers + 1] = publishers[p]
    numbers[#numbers + 1] = format('%.0f', last[p])
  end
end
if #numbers > 0 then
  put(prefix .. ':p:' .. day, numbers)
  call('EXPIRE', prefix .. ':p:' .. day, LAST_SECONDS)
end
call('HSET', meta_key, unpack(update))
return {epoch, tonumber(ms), ends, answers}
