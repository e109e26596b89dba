-- Keeps the staged rows of one transaction and the record of its last batch: one of several actions, in one atomic step.
--
-- KEYS[1]  what the keys of the transaction begin with:
--            :i          hash: attempt "batch:partition:attempt" -> rows staged of it
--            :h:ATTEMPT  list: a header of each chunk
--            :d:ATTEMPT  list: its runs
--            :r          string: "batch state " and the record
-- KEYS[2]  sorted set: transactions by the time of their record
-- KEYS[3]  set: transactions whose batch was begun and is not done
-- ARGV[1]  the action, ARGV[2] the name of the transaction
local call = redis.call
local prefix, action, name = KEYS[1], ARGV[1], ARGV[2]
local index, record_key = prefix .. ':i', prefix .. ':r'

local function unlink(member)
  call('UNLINK', prefix .. ':h:' .. member, prefix .. ':d:' .. member)
  call('HDEL', index, member)
end

local function batch_of(member) return tonumber(string.match(member, '^(%d+):')) end

local function record()
  local text = call('GET', record_key)
  if not text then return nil end
  local batch, state = string.match(text, '^(%d+) (%a+) ')
  return text, tonumber(batch), state
end

if action == 'put' then
  -- attempt, chunk, rows, header, data, seconds to keep -> '' it is staged now | the header of the chunk that was there |
  -- -1: a gap, or a batch was begun with this attempt
  local member, chunk, seconds = ARGV[3], tonumber(ARGV[4]), ARGV[8]
  local headers, data = prefix .. ':h:' .. member, prefix .. ':d:' .. member
  local count = call('LLEN', headers)
  if chunk > count then return -1 end
  if chunk < count then return call('LINDEX', headers, chunk) end
  if count > 0 and call('TTL', headers) == -1 then return -1 end  -- a batch was begun with it as it is
  call('RPUSH', headers, ARGV[6])
  call('RPUSH', data, ARGV[7])
  call('HINCRBY', index, member, ARGV[5])
  call('EXPIRE', headers, seconds)
  call('EXPIRE', data, seconds)
  local _, _, state = record()
  if state ~= 'begun' then call('EXPIRE', index, seconds) end
  return ''
end

if action == 'begin' then
  -- batch, its record, when (ms), seconds to keep it, then each attempt and its rows -> the record that counts | -1: these
  -- rows are not staged, as another server may have become the primary that never had them
  local text, batch, state = record()
  if text and (batch >= tonumber(ARGV[3]) or state == 'begun') then return text end
  for k = 7, #ARGV, 2 do
    if call('HGET', index, ARGV[k]) ~= ARGV[k + 1] or call('EXISTS', prefix .. ':d:' .. ARGV[k]) == 0 then return -1 end
  end
  call('SET', record_key, ARGV[4], 'EX', ARGV[6])
  call('ZADD', KEYS[2], ARGV[5], name)
  call('SADD', KEYS[3], name)
  call('PERSIST', record_key)
  call('PERSIST', index)
  for k = 7, #ARGV, 2 do
    call('PERSIST', prefix .. ':h:' .. ARGV[k])
    call('PERSIST', prefix .. ':d:' .. ARGV[k])
  end
  return ARGV[4]
end

if action == 'finish' then
  -- batch, its record, when (ms), seconds to keep it, transactions that are listed
  local _, batch = record()
  if batch and batch > tonumber(ARGV[3]) then return 0 end
  call('SET', record_key, ARGV[4], 'EX', ARGV[6])
  call('ZADD', KEYS[2], ARGV[5], name)
  call('ZREMRANGEBYRANK', KEYS[2], 0, -tonumber(ARGV[7]) - 1)
  call('SREM', KEYS[3], name)
  for _, member in ipairs(call('HKEYS', index)) do
    if batch_of(member) <= tonumber(ARGV[3]) then unlink(member) end
  end
  if call('EXISTS', index) == 1 then call('EXPIRE', index, ARGV[6]) end
  return 1
end

if action == 'forget' then
  local known = call('EXISTS', record_key, index)
  for _, member in ipairs(call('HKEYS', index)) do unlink(member) end
  call('DEL', record_key, index)
  call('ZREM', KEYS[2], name)
  call('SREM', KEYS[3], name)
  return known
end

-- drop: an attempt, or what attempts begin with
local _, begun, state = record()
local one = string.match(ARGV[3], '^%d+:%d+:%d+$')
for _, member in ipairs(one and {one} or call('HKEYS', index)) do
  local kept = state == 'begun' and batch_of(member) == begun
  if not kept and (member == ARGV[3] or string.sub(member, 1, #ARGV[3] + 1) == ARGV[3] .. ':') then unlink(member) end
end
return 1
