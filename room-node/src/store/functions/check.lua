-- check, look and lost: whether an owner still owns, and what it does if acknowledged events went.

-- keys: meta
-- args: epoch, nonce, the last lsn its owner was told is stored
local function check(keys, args)
  if not owned(keys[1], args[1], args[2]) then
    return {'FENCED'}
  end
  local lsn = redis.call('HGET', keys[1], 's') or '0'
  if tonumber(lsn) < tonumber(args[3]) then
    return {'SEQ', lsn}
  end
  return {'OK'}
end

-- Head of an object, and its last frames if it is no longer under this fence.
-- keys: meta, log
-- args: frames, epoch, nonce
local function look(keys, args)
  local found = redis.call('HMGET', keys[1], 'e', 'k', 's', 'c', 'x')
  local frames = {}
  if found[1] ~= args[2] or found[2] ~= args[3] then
    frames = redis.call('LRANGE', keys[2], '-' .. args[1], -1)
  end
  return {
    'OK', found[1] or '', found[2] or '', found[3] or '', found[4] or '', found[5] or '',
    frames,
  }
end

-- Keeps a record of what was lost. The same one again changes nothing.
-- keys: quarantine list
-- args: record, records kept
local function lost(keys, args)
  if redis.call('LINDEX', keys[1], -1) ~= args[1] then
    redis.call('RPUSH', keys[1], args[1])
    redis.call('LTRIM', keys[1], '-' .. args[2], -1)
  end
  return {'OK'}
end
