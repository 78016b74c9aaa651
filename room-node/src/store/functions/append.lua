-- append: one batch of events and everything that changes with it.

-- keys: meta, log, due, kept, keys of blobs to keep, keys of blobs to drop
-- args: id, epoch, nonce, expected lsn, first lsn, events, batch, frame, now, due, schema, numbers
--       of blobs to keep and to drop, of leases to raise and to drop, then these four lists
local function append(keys, args)
  local meta, log, due, kept, id = keys[1], keys[2], keys[3], keys[4], args[1]
  local found = owned(meta, args[2], args[3])
  if not found then
    return {'FENCED'}
  end
  local stored = redis.call('HMGET', meta, 'n', 'y', 'z', 'v')
  local lsn, expected = tonumber(found[3]), tonumber(args[4])
  if not lsn or not tonumber(stored[1]) then
    return damaged('meta')
  end
  if lsn > expected and (stored[2] == args[7] or stored[3] == args[7]) then
    touch(meta, found[1])
    return {'DUP'}
  end
  if lsn ~= expected or tonumber(args[5]) ~= expected + 1 then
    return {'SEQ', found[3]}
  end
  if redis.call('LLEN', log) ~= tonumber(stored[1]) then
    return damaged('log')
  end
  local keeps, drops = tonumber(args[12]), tonumber(args[13])
  local lifts, falls = tonumber(args[14]), tonumber(args[15])
  redis.call('ZSCORE', due, id)
  if keeps + drops > 0 then
    redis.call('SCARD', kept)
  end
  for at = 1, keeps do
    if redis.call('EXISTS', keys[4 + at]) == 0 then
      return {'BLOB', args[15 + at]}
    end
  end
  local leases = 15 + keeps + drops
  local higher = raises(meta, args, leases + 1, lifts)
  local schema = stored[4] or '0'
  if (tonumber(schema) or 0) < tonumber(args[11]) then
    schema = args[11]
  end

  redis.call('RPUSH', log, args[8])
  redis.call('HSET', meta, 's', plain(lsn + tonumber(args[6])), 'n', plain(stored[1] + 1),
    'w', args[9], 'y', args[7], 'z', stored[2] or '', 'v', schema)
  for at = 1, keeps do
    redis.call('PERSIST', keys[4 + at])
    redis.call('SADD', kept, args[15 + at])
  end
  for at = keeps + 1, keeps + drops do
    redis.call('UNLINK', keys[4 + at])
    redis.call('SREM', kept, args[15 + at])
  end
  for at = 1, #higher, 2 do
    redis.call('HSET', meta, higher[at], higher[at + 1])
  end
  for at = leases + 2 * lifts + 1, leases + 2 * lifts + falls do
    redis.call('HDEL', meta, args[at])
  end
  move_due(due, id, args[10])
  return {'OK'}
end
