/// The scripts that keep one registry of channels for a fleet. They run rarely, so their text is sent each time. All
/// keys of a script share one hash tag: an app in an environment.
package enum ChannelScript {
  /// KEYS: names, ids, intents, lock, count, discarded. ARGV: name, our owner name, lock (ms), storage, limit, whether we
  /// may create.
  ///
  /// Replies {0, id, entry} = found; {1} = another owner holds the lock; with the lock ours: {2, intent, now, discarded} =
  /// an earlier create is unfinished, {3, count} = our intent is stored, {4} = the number of channels is unknown; without
  /// it: {5, count} = full, {6} = nothing started.
  static let look = """
    local id = redis.call('HGET', KEYS[1], ARGV[1])
    local holder = redis.call('GET', KEYS[4])
    if id then
      if holder == ARGV[2] then redis.call('DEL', KEYS[4]) end
      return {0, id, redis.call('HGET', KEYS[2], id) or ''}
    end
    if holder and holder ~= ARGV[2] then return {1} end
    if holder then redis.call('PEXPIRE', KEYS[4], ARGV[3])
    elseif not redis.call('SET', KEYS[4], ARGV[2], 'NX', 'PX', ARGV[3]) then return {1} end
    local time = redis.call('TIME')
    local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
    local intent = redis.call('HGET', KEYS[3], ARGV[1])
    if intent then return {2, intent, now, redis.call('GET', KEYS[6]) or ''} end
    if ARGV[6] ~= '1' then redis.call('DEL', KEYS[4]) return {6} end
    local count = redis.call('GET', KEYS[5])
    if not count then return {4} end
    if tonumber(count) >= tonumber(ARGV[5]) then redis.call('DEL', KEYS[4]) return {5, tonumber(count)} end
    redis.call('HSET', KEYS[3], ARGV[1], ARGV[4] .. '\\t' .. now .. '\\t' .. ARGV[2])
    return {3, tonumber(count)}
    """

  /// KEYS: intents, lock. ARGV: name, our owner name, storage, channels at APNs that are not known (`ChannelIntent.before`), lock (ms). Begins
  /// our create now.
  ///
  /// Replies 1 = stored, 0 = the lock was lost.
  static let note = """
    if redis.call('GET', KEYS[2]) ~= ARGV[2] then return 0 end
    local time = redis.call('TIME')
    local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
    redis.call('HSET', KEYS[1], ARGV[1], ARGV[3] .. '\\t' .. now .. '\\t' .. ARGV[2] .. '\\t' .. ARGV[4])
    redis.call('PEXPIRE', KEYS[2], ARGV[5])
    return 1
    """

  /// KEYS: names, ids, intents, lock, count, discarded. ARGV: name, our owner name, id, entry, whether it is new, what was
  /// discarded last before a found one was searched. A fence: an owner that lost the lock stores nothing, no channel gets
  /// two names, and a found channel gets none if any was discarded since the search began: it may be that one, which is
  /// forgotten once it is deleted.
  ///
  /// Replies 1 = stored, intent and lock deleted; 0 = the lock was lost; 2 = another name has the channel, or it may be
  /// deleted.
  static let store = """
    if redis.call('GET', KEYS[4]) ~= ARGV[2] then return 0 end
    local known = redis.call('HGET', KEYS[2], ARGV[3])
    if known and (ARGV[5] ~= '1' or string.match(known, '^[^\\t]*\\t[^\\t]*\\t[^\\t]*\\t(.*)$') ~= '') then return 2 end
    if ARGV[5] ~= '1' and (redis.call('GET', KEYS[6]) or '') ~= ARGV[6] then return 2 end
    redis.call('HSET', KEYS[2], ARGV[3], ARGV[4])
    redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
    redis.call('HDEL', KEYS[3], ARGV[1])
    redis.call('DEL', KEYS[4])
    if ARGV[5] == '1' and redis.call('EXISTS', KEYS[5]) == 1 then redis.call('INCR', KEYS[5]) end
    return 1
    """

  /// KEYS: intents, lock. ARGV: name, our owner name, whether to delete the intent, whether to release the lock.
  static let release = """
    if redis.call('GET', KEYS[2]) ~= ARGV[2] then return 0 end
    if ARGV[3] == '1' then redis.call('HDEL', KEYS[1], ARGV[1]) end
    if ARGV[4] == '1' then redis.call('DEL', KEYS[2]) end
    return 1
    """

  /// KEYS: ids, intents. ARGV: now (ms), whether unfinished creates forbid it, ids…. Stores channels of a list that the
  /// registry does not know, without a name. Not during an unfinished create, which may have made one of them.
  static let learn = """
    if ARGV[2] == '1' and redis.call('HLEN', KEYS[2]) > 0 then return 0 end
    local learned = 0
    for index = 3, #ARGV do
      learned = learned + redis.call('HSETNX', KEYS[1], ARGV[index], '?\\t' .. ARGV[1] .. '\\t\\t')
    end
    return learned
    """

  /// KEYS: ids, intents. ARGV: id, storage, now (ms). Stores the storage policy that APNs returned for a channel.
  static let policy = """
    local known = redis.call('HGET', KEYS[1], ARGV[1])
    if known then redis.call('HSET', KEYS[1], ARGV[1], ARGV[2] .. string.match(known, '^[^\\t]*(.*)$'))
    elseif redis.call('HLEN', KEYS[2]) == 0 then
      redis.call('HSET', KEYS[1], ARGV[1], ARGV[2] .. '\\t' .. ARGV[3] .. '\\t\\t')
    end
    return 0
    """

  /// KEYS: names, ids, used, count. ARGV: id. Forgets a channel that is gone.
  ///
  /// Replies 1 = forgotten, 0 = unknown.
  static let forget = """
    local known = redis.call('HGET', KEYS[2], ARGV[1])
    redis.call('ZREM', KEYS[3], ARGV[1])
    if not known then return 0 end
    local name = string.match(known, '^[^\\t]*\\t[^\\t]*\\t[^\\t]*\\t(.*)$')
    if name ~= '' and redis.call('HGET', KEYS[1], name) == ARGV[1] then redis.call('HDEL', KEYS[1], name) end
    redis.call('HDEL', KEYS[2], ARGV[1])
    if redis.call('EXISTS', KEYS[4]) == 1 then redis.call('DECR', KEYS[4]) end
    return 1
    """

  /// KEYS: names, ids, used. ARGV: id, unused since (Unix s). Removes the name of a channel that was not used since:
  /// ensures no longer return it, and it can be deleted.
  ///
  /// Replies 1 = we may delete it, 0 = it was used, or is gone.
  package static let claim = """
    local known = redis.call('HGET', KEYS[2], ARGV[1])
    if not known then return 0 end
    local created, name = string.match(known, '^[^\\t]*\\t([^\\t]*)\\t[^\\t]*\\t(.*)$')
    local used = math.max(tonumber(redis.call('ZSCORE', KEYS[3], ARGV[1]) or 0), tonumber(created) / 1000)
    if used > tonumber(ARGV[2]) then return 0 end
    if name ~= '' and redis.call('HGET', KEYS[1], name) == ARGV[1] then redis.call('HDEL', KEYS[1], name) end
    return 1
    """

  /// KEYS: ids, discarded. ARGV: id, now (ms). Claims a channel that its creator made in vain, so that nobody adopts it: neither who searches
  /// from now on, nor who has found it already. A list may have learned it meanwhile, without a name.
  ///
  /// Replies 1 = we may delete it, 0 = it has a name.
  static let take = """
    local known = redis.call('HGET', KEYS[1], ARGV[1])
    if known and string.match(known, '^[^\\t]*\\t[^\\t]*\\t[^\\t]*\\t(.*)$') ~= '' then return 0 end
    if not known then redis.call('HSET', KEYS[1], ARGV[1], '?\\t' .. ARGV[2] .. '\\t\\t') end
    redis.call('SET', KEYS[2], ARGV[1])
    return 1
    """

  /// KEYS: names, used. ARGV: name. An activity is about to use the name's channel, from now on.
  ///
  /// Replies its id; nil = there is none.
  package static let begin = """
    local id = redis.call('HGET', KEYS[1], ARGV[1])
    if not id then return false end
    local known = tonumber(redis.call('ZSCORE', KEYS[2], id) or 0)
    local now = tonumber(redis.call('TIME')[1])
    if known < now then redis.call('ZADD', KEYS[2], now, id) end
    return id
    """

  /// KEYS: used. ARGV: Unix seconds, ids…. The later time wins.
  static let use = """
    for index = 2, #ARGV do
      local known = tonumber(redis.call('ZSCORE', KEYS[1], ARGV[index]) or 0)
      if known < tonumber(ARGV[1]) then redis.call('ZADD', KEYS[1], ARGV[1], ARGV[index]) end
    end
    return 0
    """
}
