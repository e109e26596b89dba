-- One session of an MQTT client, as a list: whose claim it is, then the whole of it and what has changed since.
--
-- KEYS[1]  the list
-- ARGV[1]  claim: somebody else's from now on; or of who has it: whole, change, empty (nothing but the claim), over
-- ARGV[2]  the claim; at its begin in the list stands ! while nobody is connected and all has been said
-- ARGV[3]  seconds for which it is of use
-- ARGV[4]  what is said; after a claim: 1 if nothing of before is wanted
-- ARGV[5]  1 if nobody is connected and all has been said
-- Answer   claim: the list as it was; else 1, 0 if it is somebody else's, 2 if the whole of it is not there
local call = redis.call
local key, action, claim, seconds, said = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local head = call('LINDEX', key, 0)

if action == 'claim' then
  local found = {}
  if head and said ~= '1' then
    found = call('LRANGE', key, 0, -1)
    call('LSET', key, 0, claim)
  else
    found = {head or nil}
    call('DEL', key)
    call('RPUSH', key, claim)
  end
  call('EXPIRE', key, seconds)
  return found
end

if head and head ~= claim and head ~= '!' .. claim then return 0 end
if action == 'over' then
  call('DEL', key)
  return 1
end
if action == 'change' and call('LLEN', key) < 2 then return 2 end
local mark = (ARGV[5] == '1' and '!' or '') .. claim
if action == 'change' then
  call('LSET', key, 0, mark)
  call('RPUSH', key, said)
else
  call('DEL', key)
  call('RPUSH', key, mark)
  if action == 'whole' then call('RPUSH', key, said) end
end
call('EXPIRE', key, seconds)
return 1
