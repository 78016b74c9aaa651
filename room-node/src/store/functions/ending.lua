-- release and destroy. Both keep the nonce they ended, so that their repeat is a success.

-- keys: meta
-- args: epoch, nonce
local function release(keys, args)
  local meta = keys[1]
  local found = redis.call('HMGET', meta, 'e', 'k', 'rk', 'x')
  if not found[2] and not found[4] and found[1] == args[1] and found[3] == args[2] then
    touch(meta, found[1])
    return {'OK'}
  end
  if not owned(meta, args[1], args[2]) then
    return {'FENCED'}
  end
  redis.call('HSET', meta, 'rk', args[2])
  redis.call('HDEL', meta, 'k', 'o')
  return {'OK'}
end

-- keys: meta, log, snapshot, due, kept
-- args: id, epoch, nonce, lsn, ms of the dead mark, prefix of blobs, prefix of chunks
local function destroy(keys, args)
  local meta, id = keys[1], args[1]
  local epoch = plain(tonumber(args[2]) + 1)
  local ended = redis.call('HMGET', meta, 'x', 'e', 'rk', 'g')
  if ended[1] and ended[2] == epoch and ended[3] == args[3] then
    touch(meta, epoch)
    return {'OK'}
  end
  local found = owned(meta, args[2], args[3])
  if not found then
    return {'FENCED'}
  end
  if tonumber(found[3]) ~= tonumber(args[4]) then
    return {'SEQ', found[3]}
  end
  redis.call('ZSCORE', keys[4], id)
  local blobs = redis.call('SMEMBERS', keys[5])

  redis.call('DEL', meta, keys[2], keys[3], keys[5])
  redis.call('HSET', meta, 'e', epoch, 'rk', args[3], 'x', '1')
  redis.call('PEXPIRE', meta, args[5])
  redis.call('ZREM', keys[4], id)
  for _, blob in ipairs(blobs) do
    redis.pcall('UNLINK', args[6] .. blob)
  end
  drop_chunks(args[7], ended[4])
  return {'OK'}
end
