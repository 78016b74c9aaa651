-- snap: a stored state in place of the log before it.

-- lsn of the last event of a stored frame: the first one's at byte 8, their number at byte 52.
local function last_of(frame)
  if not frame or #frame < 55 then
    return nil
  end
  return struct.unpack('>I8', frame, 8) + struct.unpack('>I4', frame, 52) - 1
end

-- How many frames stand before `lsn`, if a frame ends there; nil if none does.
local function frames_until(log, count, lsn)
  local low, high = 0, count - 1
  while low <= high do
    local middle = math.floor((low + high) / 2)
    local last = last_of(redis.call('LINDEX', log, middle))
    if not last then
      return nil
    end
    if last == lsn then
      return middle + 1
    end
    if last < lsn then
      low = middle + 1
    else
      high = middle - 1
    end
  end
  return nil
end

-- keys: meta, log, snapshot, keys of chunks
-- args: id, epoch, nonce, lsn, schema, snapshot, prefix of chunks, set of chunks or ''
local function snap(keys, args)
  local meta, log, snapshot = keys[1], keys[2], keys[3]
  local found = owned(meta, args[2], args[3])
  if not found then
    return {'FENCED'}
  end
  local stored = redis.call('HMGET', meta, 'n', 'p', 'v', 'g')
  local count, before, head = tonumber(stored[1]), tonumber(stored[2]), tonumber(found[3])
  local lsn = tonumber(args[4])
  if not count or not before or not head then
    return damaged('meta')
  end
  if redis.call('LLEN', log) ~= count then
    return damaged('log')
  end
  if lsn < before then
    -- A late repeat: the log behind the newer snapshot is gone, so it must stay.
    touch(meta, found[1])
    return {'OK'}
  end
  local trimmed = 0
  if lsn == head and lsn > before then
    trimmed = count
  elseif lsn > before then
    trimmed = frames_until(log, count, lsn)
  end
  if lsn == 0 or not trimmed then
    return {'SEQ', found[3]}
  end
  for at = 4, #keys do
    if redis.call('EXISTS', keys[at]) == 0 then
      return {'CHUNK'}
    end
  end
  local schema = stored[3] or '0'
  if (tonumber(schema) or 0) < tonumber(args[5]) then
    schema = args[5]
  end

  redis.call('SET', snapshot, args[6])
  if trimmed == count then
    redis.call('DEL', log)
  elseif trimmed > 0 then
    redis.call('LTRIM', log, trimmed, -1)
  end
  for at = 4, #keys do
    redis.call('PERSIST', keys[at])
  end
  redis.call('HSET', meta, 'n', plain(count - trimmed), 'p', args[4], 'v', schema, 'g', args[8])
  if stored[4] ~= args[8] then
    drop_chunks(args[7], stored[4])
  end
  return {'OK'}
end
