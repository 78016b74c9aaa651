-- What the functions of room_v2 share.
--
-- A function reads and checks everything first and writes last: a function that fails half-way is
-- not rolled back. It answers with an array whose first element is a code; what is no such answer
-- is an error of Redis itself, met while reading, so that nothing was changed.
--
-- Numbers (epoch, lsn, times) are decimal text and exact up to 2^53. Nonces are 16 hex digits.
--
-- Meta hash: e epoch, k nonce, o owner (node '/' boot), rk nonce of the last release or destroy,
-- c nonce that began the generation, s lsn, n frames in the list, p lsn of the snapshot, w time of
-- the last append, y and z the last two batch ids (newest in y), v highest schema, g set of chunks
-- of the snapshot, x the mark of a destroyed object, a<participant> stored end of an agent lease.

local function plain(number)
  return string.format('%.0f', number)
end

local function failed(reply)
  return type(reply) == 'table' and reply.err ~= nil
end

-- Whether any of these replies says that a key has another type than it must have.
local function wrong(...)
  for _, reply in ipairs({...}) do
    if failed(reply) then
      return true
    end
  end
  return false
end

local function damaged(what)
  return {'DAMAGED', what}
end

-- e, k and s of an object that lives and is owned under exactly this fence; nil if it is not.
local function owned(meta, epoch, nonce)
  local found = redis.call('HMGET', meta, 'e', 'k', 's')
  if found[1] == epoch and found[2] == nonce and nonce ~= '' then
    return found
  end
  return nil
end

local function move_due(due, id, at)
  if at == '' then
    redis.call('ZREM', due, id)
  else
    redis.call('ZADD', due, at, id)
  end
end

-- A repeat writes too, so that a wait for replicas covers what it repeats.
local function touch(meta, epoch)
  redis.call('HSET', meta, 'e', epoch)
end

-- Field and value pairs that raise the lease ends named in args[from..], never lowering one.
local function raises(meta, args, from, count)
  local order, ends = {}, {}
  for at = from, from + 2 * count - 2, 2 do
    local field, wanted = args[at], tonumber(args[at + 1])
    if ends[field] == nil then
      order[#order + 1] = field
      ends[field] = tonumber(redis.call('HGET', meta, field) or '0') or 0
    end
    if wanted > ends[field] then
      ends[field] = wanted
    end
  end
  local pairs_of = {}
  for _, field in ipairs(order) do
    pairs_of[#pairs_of + 1] = field
    pairs_of[#pairs_of + 1] = plain(ends[field])
  end
  return pairs_of
end

-- Keys that no caller names come last and may fail, as they do while a slot of a cluster moves:
-- what is left behind is unreachable bytes, never a half-done change.
local function drop_chunks(prefix, set)
  local id, count = string.match(set or '', '^(%x+):(%d+)$')
  if id then
    for at = 0, tonumber(count) - 1 do
      redis.pcall('UNLINK', prefix .. id .. ':' .. at)
    end
  end
end
