-- The node table of one region. All keys share the tag {nodes:REGION}, hence one slot:
--   keys[1] v  hash: the table itself (below)
--   keys[2] m  hash: live incarnation -> state, address, zone, weight, schema min, schema max
--   keys[3] x  sorted set: live incarnation -> end of its node lease, ms
--   keys[4] l  hash: live incarnation -> load
--   keys[5] t  sorted set: ended incarnation -> number of the view in which it ended
--   keys[6] q  sorted set: incarnation that somebody asked for and the table never heard of -> when
-- Fields of v: n view number, s stamp of the last change, u up_since, p placement version,
--   d the longest lease (ms), r last renewal, j when pending joins become active, jf the first of
--   them, g no lease is ended before, gr the renewal for whose silence g was set, id run id of the
--   primary that wrote last, c numbers below may come from a history that is no longer ours.
-- Time is Redis's own. A member ends only here, by a tombstone or by leaving, and never comes back.
-- args[1] view number the caller has, args[2] its stamp, args[3] grace in ms; the rest as named.
-- Answer: word, time, number, stamp, up_since, tombstones written, kind (0 nothing new, 1 the ends
-- since the caller's view, 2 all ends), members, ends.

local MEMBERS_MAX = 512
local ENDED_MAX = 4096
local QUESTIONS_MAX = 4096
-- More views than a primary can lose to its successor: numbers after a change of primary are above
-- all numbers that anybody saw before.
local LEAP = 1024
-- Joins that keep coming cannot put off the first of them for longer than so many delays.
local DELAYS_MAX = 4

local function num(text)
  return tonumber(text or '0')
end

-- Forbidden to scripts in some places; then only the silence after a failover gives grace.
local function run_id()
  local info = redis.pcall('INFO', 'server')
  if type(info) ~= 'string' then return '' end
  return string.match(info, 'run_id:(%x+)') or ''
end

-- One raise a call, however much it changes.
local function raise(s, by)
  if by then
    s.v.n = num(s.v.n) + by
    s.v.c = s.v.n
  elseif not s.raised then
    s.v.n = num(s.v.n) + 1
  end
  s.raised = true
  s.v.s = s.stamp
end

local function grace(s, ms)
  s.v.g = math.max(num(s.v.g), s.now + ms)
end

-- Reads the table and notices what happened to it since the last call.
local function open(keys, args)
  local t = redis.call('TIME')
  local s = { k = keys, v = {}, tombs = 0, seen = num(args[1]), seen_stamp = args[2] }
  s.now = num(t[1]) * 1000 + math.floor(num(t[2]) / 1000)
  s.stamp = t[1] .. '.' .. t[2]
  s.grace = num(args[3])
  local flat = redis.call('HGETALL', keys[1])
  for i = 1, #flat, 2 do s.v[flat[i]] = flat[i + 1] end
  local v = s.v
  if not v.n then
    -- A new table, or one that was lost: the clock puts its numbers above those of any before it.
    v.n = math.max(s.now, s.seen + LEAP)
    v.c = v.n
    v.s = s.stamp
    s.raised = true
  elseif s.seen > num(v.n) then
    raise(s, s.seen - num(v.n) + LEAP)
  elseif s.seen == num(v.n) and s.seen_stamp ~= v.s then
    raise(s, LEAP)
  end
  local id = run_id()
  if id ~= '' and id ~= v.id then
    if v.id then
      -- Another primary, or this one anew: its clock may be ahead, and the primary before it may
      -- have confirmed renewals for as long as its replicas may lag, which is at most one lease.
      grace(s, s.grace + num(v.d))
      raise(s, LEAP)
    end
    v.id = id
  end
  if v.r and v.gr ~= v.r and s.now - num(v.r) > num(v.d) / 2 then
    -- Nobody renewed for long: Redis was away, not all of them. Who lives may say so first.
    v.gr = v.r
    grace(s, s.grace)
  end
  return s
end

local function record(fields)
  return table.concat(fields, '\n')
end

local function fields(text)
  local found = {}
  for field in string.gmatch(text .. '\n', '(.-)\n') do found[#found + 1] = field end
  return found
end

-- All live members: incarnation -> fields.
local function members(s)
  local flat = redis.call('HGETALL', s.k[2])
  local found = {}
  for i = 1, #flat, 2 do found[flat[i]] = fields(flat[i + 1]) end
  return found
end

local function set_state(s, incarnation, member, state)
  member[1] = state
  redis.call('HSET', s.k[2], incarnation, record(member))
  raise(s)
end

local function bury(s, incarnation)
  raise(s)
  redis.call('HDEL', s.k[2], incarnation)
  redis.call('ZREM', s.k[3], incarnation)
  redis.call('HDEL', s.k[4], incarnation)
  redis.call('ZREM', s.k[6], incarnation)
  redis.call('ZADD', s.k[5], s.v.n, incarnation)
  redis.call('ZREMRANGEBYRANK', s.k[5], 0, -(ENDED_MAX + 1))
end

-- Ends leases that are over and lets joined members begin.
local function sweep(s)
  if s.now > num(s.v.g) then
    for _, incarnation in ipairs(redis.call('ZRANGEBYSCORE', s.k[3], '-inf', '(' .. s.now)) do
      bury(s, incarnation)
      s.tombs = s.tombs + 1
    end
  end
  if not s.v.j then return end
  local all, active = members(s), false
  for _, member in pairs(all) do active = active or member[1] == 'active' end
  if active and s.now < num(s.v.j) then return end
  for incarnation, member in pairs(all) do
    if member[1] == 'joining' then set_state(s, incarnation, member, 'active') end
  end
  s.v.j, s.v.jf = nil, nil
  redis.call('HDEL', s.k[1], 'j', 'jf')
end

-- Always writes, be it the same again: where replicas confirm what counts, the caller's wait then
-- covers everything it was told, by whomever it was written.
local function answer(s, word)
  local flat = {}
  for field, value in pairs(s.v) do
    flat[#flat + 1] = field
    flat[#flat + 1] = value
  end
  redis.call('HSET', s.k[1], unpack(flat))
  local n = num(s.v.n)
  local out = { word, s.now, n, s.v.s, num(s.v.u), s.tombs, 0, {}, {} }
  if s.seen == n and s.seen_stamp == s.v.s then return out end
  local full = s.seen < num(s.v.c) or s.seen > n
  out[7] = full and 2 or 1
  local load = {}
  local loads = redis.call('HGETALL', s.k[4])
  for i = 1, #loads, 2 do load[loads[i]] = loads[i + 1] end
  local live = redis.call('HGETALL', s.k[2])
  for i = 1, #live, 2 do
    out[8][#out[8] + 1] = live[i] .. '\n' .. live[i + 1] .. '\n' .. (load[live[i]] or '0')
  end
  local from = full and '-inf' or '(' .. s.seen
  out[9] = redis.call('ZRANGEBYSCORE', s.k[5], from, '+inf')
  return out
end

local function refusal(s, incarnation)
  if redis.call('ZSCORE', s.k[5], incarnation) then return answer(s, 'ENDED') end
  return answer(s, 'UNKNOWN')
end

-- Takes a lease, or prolongs it, from now on. If nobody held one, service begins only now.
local function hold(s, incarnation, ttl, load)
  local last = redis.call('ZREVRANGE', s.k[3], 0, 0, 'WITHSCORES')
  if not last[2] or num(last[2]) <= s.now then s.v.u = s.now end
  s.v.r = s.now
  s.v.d = math.max(num(s.v.d), ttl)
  redis.call('ZADD', s.k[3], s.now + ttl, incarnation)
  redis.call('HSET', s.k[4], incarnation, load)
end

-- Why a newcomer cannot join; nil if it can. Ends the predecessor whose place it takes.
local function objection(s, all, incarnation, new)
  local node = string.match(incarnation, '^(.*)/')
  local count, low, high = 0, new.low, new.high
  for other, member in pairs(all) do
    if string.match(other, '^(.*)/') == node then
      if not (new.supersedes and member[2] == new.address) then return 'TAKEN' end
      bury(s, other)
      s.tombs = s.tombs + 1
      all[other] = nil
    else
      count = count + 1
      low = math.max(low, num(member[5]))
      high = math.min(high, num(member[6]))
    end
  end
  if count >= MEMBERS_MAX then return 'FULL' end
  if low > high then return 'SCHEMA' end
  return nil
end

-- incarnation, ttl, join delay, placement version, schema min, schema max, address, zone, weight,
-- 1 if it takes the place of an incarnation of its node at the same address
local function join(keys, args)
  local s = open(keys, args)
  local incarnation, ttl, delay = args[4], num(args[5]), num(args[6])
  if s.v.p and s.v.p ~= args[7] then return answer(s, 'PLACEMENT') end
  if redis.call('ZSCORE', keys[5], incarnation) then return answer(s, 'ENDED') end
  if redis.call('ZSCORE', keys[3], incarnation) then
    hold(s, incarnation, ttl, '0')
    sweep(s)
    return answer(s, 'OK')
  end
  sweep(s)
  local new = { low = num(args[8]), high = num(args[9]), address = args[10] }
  new.supersedes = args[13] == '1'
  local all = members(s)
  local why = objection(s, all, incarnation, new)
  if why then return answer(s, why) end
  local active = false
  for _, member in pairs(all) do active = active or member[1] == 'active' end
  local state = 'joining'
  if delay == 0 or not active then state = 'active' end
  s.v.p = args[7]
  redis.call('ZREM', keys[6], incarnation)
  redis.call('HSET', keys[2], incarnation,
    record({ state, args[10], args[11], args[12], args[8], args[9] }))
  raise(s)
  if state == 'joining' then
    s.v.jf = s.v.jf or s.now
    s.v.j = math.min(s.now + delay, num(s.v.jf) + DELAYS_MAX * delay)
  end
  hold(s, incarnation, ttl, '0')
  sweep(s)
  return answer(s, 'OK')
end

-- incarnation, ttl, load
local function renew(keys, args)
  local s = open(keys, args)
  if not redis.call('ZSCORE', keys[3], args[4]) then return refusal(s, args[4]) end
  hold(s, args[4], num(args[5]), args[6])
  sweep(s)
  return answer(s, 'OK')
end

-- incarnation
local function drain(keys, args)
  local s = open(keys, args)
  local found = redis.call('HGET', keys[2], args[4])
  if not found then return refusal(s, args[4]) end
  local member = fields(found)
  if member[1] ~= 'draining' then set_state(s, args[4], member, 'draining') end
  sweep(s)
  return answer(s, 'OK')
end

-- incarnation; one the table never heard of may say of itself that it ended, too
local function leave(keys, args)
  local s = open(keys, args)
  if not redis.call('ZSCORE', keys[5], args[4]) then bury(s, args[4]) end
  sweep(s)
  return answer(s, 'OK')
end

-- placement version of a caller that places by what it is told; none from callers of before
local function view(keys, args)
  local s = open(keys, args)
  sweep(s)
  if args[4] and s.v.p and s.v.p ~= args[4] then return answer(s, 'PLACEMENT') end
  return answer(s, 'OK')
end

-- 1 if the caller saw them end, then incarnations. One the table does not know is ended once it
-- stayed unknown for longer than any lease that another table may have given it.
local function expire(keys, args)
  local s = open(keys, args)
  sweep(s)
  local span = 2 * num(s.v.d) + s.grace
  for i = 5, #args do
    local incarnation = args[i]
    local live = redis.call('ZSCORE', keys[3], incarnation)
    if redis.call('ZSCORE', keys[5], incarnation) then
      -- It is among the ends of this answer, or the caller has it.
    elseif args[4] == '1' then
      bury(s, incarnation)
      s.tombs = s.tombs + 1
    elseif not live then
      local asked = redis.call('ZSCORE', keys[6], incarnation)
      if not asked then
        redis.call('ZADD', keys[6], s.now, incarnation)
        redis.call('ZREMRANGEBYRANK', keys[6], 0, -(QUESTIONS_MAX + 1))
      elseif s.now - num(asked) > span then
        bury(s, incarnation)
        s.tombs = s.tombs + 1
      end
    end
  end
  return answer(s, 'OK')
end
