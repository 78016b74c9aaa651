-- claim and refence: taking ownership, and everything a waking object needs, in one answer.

-- All fields of the meta hash by name; nil if the key is no hash.
local function whole(meta)
  local flat = redis.pcall('HGETALL', meta)
  if failed(flat) then
    return nil
  end
  local fields = {}
  for at = 1, #flat, 2 do
    fields[flat[at]] = flat[at + 1]
  end
  return fields
end

-- What is wrong with the stored object; nil if nothing is. keys: meta, log, snapshot, due.
local function unsound(keys, id, fields)
  local frames = redis.pcall('LLEN', keys[2])
  local bytes = redis.pcall('STRLEN', keys[3])
  if wrong(redis.pcall('ZSCORE', keys[4], id)) then
    return 'due'
  end
  if not tonumber(fields.e) or not tonumber(fields.s) or not tonumber(fields.n)
    or not tonumber(fields.p) or not tonumber(fields.w) or not fields.c then
    return 'meta'
  end
  if failed(frames) or frames ~= tonumber(fields.n) then
    return 'log'
  end
  if failed(bytes) or (bytes > 0) ~= (fields.p ~= '0') then
    return 'snapshot'
  end
  return nil
end

-- Nobody can own a damaged object, so nobody else could take it off the due index.
local function set_aside(keys, id, what)
  redis.pcall('ZREM', keys[4], id)
  return damaged(what)
end

local function state(keys, id, fields, epoch)
  local leases = {}
  for field, value in pairs(fields) do
    if #field == 17 and string.sub(field, 1, 1) == 'a' then
      leases[#leases + 1] = string.sub(field, 2)
      leases[#leases + 1] = value
    end
  end
  return {
    'OK', epoch, fields.s, fields.p, fields.w, fields.c,
    redis.call('ZSCORE', keys[4], id) or '', redis.call('GET', keys[3]) or '',
    redis.call('LRANGE', keys[2], 0, -1), leases, fields.g or '',
  }
end

-- keys: meta, log, snapshot, due
-- args: id, owner, nonce, may create, observed epoch, observed nonce, now, schema
local function claim(keys, args)
  local meta, id, me, nonce = keys[1], args[1], args[2], args[3]
  local fields = whole(meta)
  if not fields then
    return set_aside(keys, id, 'meta')
  end
  if not fields.e or fields.x then
    -- A log or snapshot without its meta hash is a loss, never the start of an empty object.
    if redis.call('EXISTS', keys[2], keys[3]) > 0 then
      return set_aside(keys, id, 'meta')
    end
    if wrong(redis.pcall('ZSCORE', keys[4], id)) then
      return damaged('due')
    end
    if args[4] ~= '1' then
      redis.call('ZREM', keys[4], id)
      return {'ABSENT'}
    end
    local epoch = plain((tonumber(fields.e) or 0) + 1)
    -- DEL takes the end of the dead mark away with it.
    redis.call('DEL', meta)
    redis.call('HSET', meta, 'e', epoch, 'k', nonce, 'o', me, 'c', nonce, 's', '0', 'n', '0',
      'p', '0', 'w', args[7])
    redis.call('ZREM', keys[4], id)
    return {'OK', epoch, '0', '0', args[7], nonce, '', '', {}, {}, ''}
  end
  if fields.o and not fields.k then
    return set_aside(keys, id, 'meta')
  end
  local repeated = fields.k == nonce and fields.o == me
  -- Whoever takes an owner's place states the fence it saw, also of an earlier run of its own: the
  -- claim of a run that is over may arrive after its successor's.
  local observed = args[5] == fields.e and args[6] == fields.k
  if fields.o and not repeated and not observed then
    return {'OWNED', fields.e, fields.k, fields.o}
  end
  local what = unsound(keys, id, fields)
  if what then
    return set_aside(keys, id, what)
  end
  if (tonumber(fields.v or '0') or 0) > tonumber(args[8]) then
    return {'NEWER', fields.v}
  end
  if repeated then
    local answer = state(keys, id, fields, fields.e)
    touch(meta, fields.e)
    return answer
  end
  local epoch = plain(tonumber(fields.e) + 1)
  local answer = state(keys, id, fields, epoch)
  redis.call('HSET', meta, 'e', epoch, 'k', nonce, 'o', me)
  redis.call('HDEL', meta, 'rk')
  return answer
end

-- keys: meta, log, snapshot, due
-- args: id, old epoch, old nonce, nonce, schema
local function refence(keys, args)
  local meta, id, nonce = keys[1], args[1], args[4]
  local fields = whole(meta)
  if not fields then
    return damaged('meta')
  end
  local epoch = plain(tonumber(args[2]) + 1)
  local repeated = fields.k == nonce and fields.e == epoch
  local mine = fields.k == args[3] and fields.e == args[2]
  if not fields.o or not (repeated or mine) then
    return {'FENCED'}
  end
  local what = unsound(keys, id, fields)
  if what then
    return damaged(what)
  end
  if (tonumber(fields.v or '0') or 0) > tonumber(args[5]) then
    return {'NEWER', fields.v}
  end
  local answer = state(keys, id, fields, epoch)
  redis.call('HSET', meta, 'e', epoch, 'k', nonce)
  redis.call('HDEL', meta, 'rk')
  return answer
end
