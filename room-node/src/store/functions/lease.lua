-- lease and due: what an owner may change without a log entry.

-- keys: meta, due
-- args: id, epoch, nonce, due, number of leases, leases
local function lease(keys, args)
  local meta, due, id = keys[1], keys[2], args[1]
  if not owned(meta, args[2], args[3]) then
    return {'FENCED'}
  end
  redis.call('ZSCORE', due, id)
  local higher = raises(meta, args, 6, tonumber(args[5]))

  touch(meta, args[2])
  for at = 1, #higher, 2 do
    redis.call('HSET', meta, higher[at], higher[at + 1])
  end
  move_due(due, id, args[4])
  return {'OK'}
end

-- With a fence, the owner moves its entry anywhere. Without one, anybody moves it earlier.
-- keys: meta, due
-- args: id, epoch, nonce, due
local function due(keys, args)
  local meta, index, id = keys[1], keys[2], args[1]
  local found = redis.call('HMGET', meta, 'e', 'x')
  local stored = redis.call('ZSCORE', index, id)
  if not found[1] or found[2] then
    redis.call('ZREM', index, id)
    return {'FENCED'}
  end
  if args[2] == '' then
    if not stored or tonumber(args[4]) < tonumber(stored) then
      redis.call('ZADD', index, args[4], id)
    end
    return {'OK'}
  end
  if not owned(meta, args[2], args[3]) then
    return {'FENCED'}
  end
  touch(meta, args[2])
  move_due(index, id, args[4])
  return {'OK'}
end
