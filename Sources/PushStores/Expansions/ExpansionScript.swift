/// The scripts that store the progress of audiences. Each carries out one event of `ExpansionState`. All keys of a
/// script share one hash tag: a job's id. Those with `ExpansionKeys.all` take over what the build before has of the job.
///
/// Fields of the state: `phase`, `cancelled`, `fixed`, `published`, `ordinal` (empty at the end), `pages`, `settled`,
/// `first` (page of the last fixed step), `devices`, `forgotten`, `n:<letter>` (devices by outcome), `begun`, `ended`
/// (Unix ms), `of` (ordinals of the scope), `withdrawn`, `broadcast` (the newest state was broadcast again), `early` (why a step found no more
/// devices), `channel` (the `PageEnd` letter of an activity's broadcast, which counts as a page; empty: it is open), `channel_reason`, `kept`
/// (what a cancelled job of an activity may have told stays).
package enum ExpansionScript {
  /// The build before had one job of an id, whatever its app. What stays at its key names the app: some of the job's messages do not, and may
  /// still come.
  private static let takeOver =
    """
    if redis.call('EXISTS', KEYS[1]) == 0 then
      local half = #KEYS / 2
      local former = KEYS[half + 1]
      local known = redis.call('HMGET', former, 'app', 'environment', 'phase')
      if known[1] and known[2] and known[3]
        and string.sub(former, 1, -6) .. known[1] .. ':' .. known[2] .. ':state' == KEYS[1] then
        local seconds = redis.call('TTL', former)
        for index = 1, half do
          if redis.call('EXISTS', KEYS[half + index]) == 1 then redis.call('RENAME', KEYS[half + index], KEYS[index]) end
        end
        redis.call('HSET', former, 'app', known[1], 'environment', known[2])
        redis.call('EXPIRE', former, math.max(seconds, 60))
      end
    end

    """

  /// KEYS: `ExpansionKeys.all`. ARGV: step, ordinal, pages, devices, maximum of open pages, now (ms), TTL (s), app,
  /// environment, more facts as names and values…, body. A job's first message creates its state.
  ///
  /// Replies {'done'}, {'completed'} = its outcome is published, and this is its first message again, {'evaluate', ordinal}, {'paused'},
  /// {'full'}, or {'publish', first page, number of pages so far, ordinal of the next step, devices, whether the job is
  /// complete}.
  package static let open = LuaScript(
    takeOver + """
      local key, step = KEYS[1], tonumber(ARGV[1])
      if redis.call('EXISTS', key) == 0 then
        redis.call('HSET', key, 'phase', 'running', 'fixed', ARGV[1], 'published', ARGV[1], 'ordinal', ARGV[2],
          'pages', ARGV[3], 'settled', ARGV[3], 'first', ARGV[3], 'devices', ARGV[4], 'begun', ARGV[6],
          'app', ARGV[8], 'environment', ARGV[9])
        for index = 10, #ARGV - 2, 2 do redis.call('HSET', key, ARGV[index], ARGV[index + 1]) end
        if step > 0 then redis.call('HSET', key, 'forgotten', '1') end
        redis.call('SET', KEYS[2], ARGV[#ARGV])
      end
      redis.call('EXPIRE', key, ARGV[7])
      redis.call('EXPIRE', KEYS[2], ARGV[7])
      local known = redis.call('HMGET', key, 'phase', 'fixed', 'published', 'ordinal', 'pages', 'settled', 'first',
        'devices', 'withdrawn', 'channel')
      local phase, fixed, ordinal = known[1], tonumber(known[2]), known[4]
      local pages, settled, first, devices = tonumber(known[5]), tonumber(known[6]), tonumber(known[7]), tonumber(known[8])
      if phase == 'completed' and step == 0 and not known[9] then return {'completed'} end
      if phase == 'completed' or step < tonumber(known[3]) or step == fixed and ordinal == '' then return {'done'} end
      redis.call('HSET', key, 'published', ARGV[1])
      if step > fixed then
        local later = tonumber(ARGV[3])
        if later > pages then
          settled = settled + later - pages
          pages = later
        end
        fixed, ordinal, first, devices = step, ARGV[2], pages, math.max(devices, tonumber(ARGV[4]))
        redis.call('HSET', key, 'fixed', fixed, 'ordinal', ordinal, 'pages', pages, 'settled', settled, 'first', first,
          'devices', string.format('%.0f', devices), 'forgotten', '1')
      end
      if step == fixed then
        if phase == 'paused' then return {'paused'} end
        if phase == 'running' then
          if pages - settled >= tonumber(ARGV[5]) then return {'full'} end
          return {'evaluate', ordinal}
        end
        first, ordinal = pages, ''
        if known[10] == '' and step == 0 then
          settled = settled + 1
          redis.call('HSET', key, 'channel', 's', 'settled', settled)
        end
        redis.call('HSET', key, 'fixed', fixed + 1, 'ordinal', '', 'first', first)
      end
      local complete = 0
      if ordinal == '' and pages == settled then
        complete = 1
        redis.call('HSETNX', key, 'ended', ARGV[6])
      end
      return {'publish', tostring(first), tostring(pages), ordinal, string.format('%.0f', devices), complete}
      """)

  /// KEYS: `ExpansionKeys.all`. ARGV: reason, now (ms), TTL (s), app, environment. Ends the job before its first step.
  ///
  /// Replies the reason of the first call; nil = the job has a step, which decides its end.
  package static let withdraw = LuaScript(
    takeOver + """
      local key = KEYS[1]
      if redis.call('EXISTS', key) == 0 then
        redis.call('HSET', key, 'phase', 'completed', 'withdrawn', ARGV[1], 'fixed', '0', 'published', '0', 'ordinal', '',
          'pages', '0', 'settled', '0', 'first', '0', 'devices', '0', 'begun', ARGV[2], 'ended', ARGV[2],
          'app', ARGV[4], 'environment', ARGV[5])
        redis.call('EXPIRE', key, ARGV[3])
      end
      return redis.call('HGET', key, 'withdrawn')
      """)

  /// KEYS: state, pages, ordinals. ARGV: step, ordinal of the next one (empty: none), devices of a dry run, ordinals of
  /// the scope, now (ms), TTL (s), then for each page the number of its devices, their ordinals (`PageOrdinals`) and
  /// fingerprints (empty: none).
  ///
  /// Replies like `open`: {'publish', …}; or {'again'}: another worker or a command came meanwhile.
  package static let fix = LuaScript(
    """
    local key = KEYS[1]
    local known = redis.call('HMGET', key, 'phase', 'fixed', 'pages', 'settled', 'devices')
    if known[1] ~= 'running' or known[2] ~= ARGV[1] then return {'again'} end
    local first, devices = tonumber(known[3]), tonumber(known[5]) + tonumber(ARGV[3])
    local pages = first
    for index = 7, #ARGV, 3 do
      redis.call('HSET', KEYS[2], tostring(pages), string.rep('-', tonumber(ARGV[index])))
      redis.call('HSET', KEYS[3], tostring(pages), ARGV[index + 1])
      if ARGV[index + 2] ~= '' then redis.call('HSET', KEYS[3], 'f' .. pages, ARGV[index + 2]) end
      pages = pages + 1
      devices = devices + tonumber(ARGV[index])
    end
    redis.call('EXPIRE', KEYS[2], ARGV[6])
    redis.call('EXPIRE', KEYS[3], ARGV[6])
    redis.call('HSET', key, 'fixed', tonumber(ARGV[1]) + 1, 'ordinal', ARGV[2], 'first', first, 'pages', pages,
      'devices', string.format('%.0f', devices), 'of', ARGV[4])
    local complete = 0
    if ARGV[2] == '' and pages == tonumber(known[4]) then
      complete = 1
      redis.call('HSETNX', key, 'ended', ARGV[5])
    end
    return {'publish', tostring(first), tostring(pages), ARGV[2], string.format('%.0f', devices), complete}
    """)

  /// KEYS: state. ARGV: step. Stores that its pages and the next step's message are confirmed.
  package static let published = LuaScript(
    """
    local known = redis.call('HMGET', KEYS[1], 'fixed', 'published')
    local step = tonumber(ARGV[1])
    if known[1] and step < tonumber(known[1]) and step >= tonumber(known[2]) then
      redis.call('HSET', KEYS[1], 'published', step + 1)
    end
    return 0
    """)

  /// KEYS: `ExpansionKeys.all`. ARGV: page, TTL (s). What a paused job has lives on as long as its pages ask.
  ///
  /// Replies phase, whether it is cancelled, pages, settled pages, whether a part was forgotten; the page's letters, ordinals and
  /// fingerprints; whether any page has letters.
  package static let page = LuaScript(
    takeOver + """
      local known = redis.call('HMGET', KEYS[1], 'phase', 'cancelled', 'pages', 'settled', 'forgotten')
      known[6] = redis.call('HGET', KEYS[3], ARGV[1])
      local devices = redis.call('HMGET', KEYS[4], ARGV[1], 'f' .. ARGV[1])
      known[7], known[8] = devices[1], devices[2]
      known[9] = redis.call('EXISTS', KEYS[3])
      if known[1] == 'paused' then
        for index = 1, 4 do redis.call('EXPIRE', KEYS[index], ARGV[2]) end
      end
      return known
      """)

  /// KEYS: `ExpansionKeys.all`. ARGV: page, position, letters, now (ms), TTL (s), the devices' epoch and ordinals or nothing, their
  /// fingerprints or nothing. Where Redis has other devices at these positions, it forgot the page, and it was made anew: the letters tell
  /// nothing about that one.
  ///
  /// Replies 1 = the job is complete, and its outcome not published; 0 = not complete, or unknown.
  package static let settle = LuaScript(
    takeOver + """
      local key = KEYS[1]
      local phase = redis.call('HGET', key, 'phase')
      if not phase or phase == 'completed' then return 0 end
      local known = redis.call('HGET', KEYS[3], ARGV[1])
      if known and ARGV[6] ~= '' then
        local epoch, all = string.match(redis.call('HGET', KEYS[4], ARGV[1]) or '', '(%d+):([%d,]*)$')
        local part, from, index = {}, tonumber(ARGV[2]), 0
        for ordinal in string.gmatch(all or '', '%d+') do
          index = index + 1
          if index > from + #ARGV[3] then break end
          if index > from then part[index - from] = ordinal end
        end
        if epoch and epoch .. ':' .. table.concat(part, ',') ~= ARGV[6] then known = false end
      end
      if known and ARGV[7] ~= '' then
        local all, from = redis.call('HGET', KEYS[4], 'f' .. ARGV[1]), 6 * ARGV[2]
        if all and string.sub(all, from + 1, from + #ARGV[7]) ~= ARGV[7] then known = false end
      end
      if known then
        local ends, counts = {}, {}
        for index = 1, #known do ends[index] = string.sub(known, index, index) end
        for index = 1, #ARGV[3] do
          local place, letter = tonumber(ARGV[2]) + index, string.sub(ARGV[3], index, index)
          if letter ~= '-' and ends[place] == '-' then
            ends[place] = letter
            counts[letter] = (counts[letter] or 0) + 1
          end
        end
        for letter, count in pairs(counts) do redis.call('HINCRBY', key, 'n:' .. letter, count) end
        local text = table.concat(ends)
        if string.find(text, '-', 1, true) then
          redis.call('HSET', KEYS[3], ARGV[1], text)
        else
          redis.call('HDEL', KEYS[3], ARGV[1])
          redis.call('HDEL', KEYS[4], ARGV[1], 'f' .. ARGV[1])
          redis.call('HINCRBY', key, 'settled', 1)
        end
        redis.call('EXPIRE', key, ARGV[5])
      end
      local state = redis.call('HMGET', key, 'ordinal', 'pages', 'settled')
      if state[1] ~= '' or state[2] ~= state[3] then return 0 end
      redis.call('HSETNX', key, 'ended', ARGV[4])
      return 1
      """)

  /// KEYS: `ExpansionKeys.all`. ARGV: pause, resume or cancel. Once all devices have their end, nothing is left to pause or cancel: its outcome
  /// is about to tell that.
  ///
  /// Replies {phase, new phase, whether the command changed or may change something}; {} = unknown job.
  package static let command = LuaScript(
    takeOver + """
      local key = KEYS[1]
      local known = redis.call('HMGET', key, 'phase', 'ended')
      local phase = known[1]
      if not phase then return {} end
      local wanted = phase
      if known[2] and phase ~= 'cancelled' and ARGV[1] ~= 'resume' then return {'completed', 'completed', 0} end
      if phase == 'running' or phase == 'paused' then
        wanted = ({pause = 'paused', resume = 'running', cancel = 'cancelled'})[ARGV[1]]
      elseif phase == 'completed' or ARGV[1] ~= 'cancel' then
        return {phase, phase, 0}
      end
      redis.call('HSET', key, 'phase', wanted)
      if wanted == 'cancelled' then redis.call('HSET', key, 'cancelled', '1') end
      return {phase, wanted, 1}
      """)

  /// KEYS: state. An activity's broadcast will be published with the first step's pages, and counts as one of them.
  package static let expectBroadcast = LuaScript(
    """
    local phase = redis.call('HGET', KEYS[1], 'phase')
    if phase ~= 'running' and phase ~= 'paused' then return 0 end
    if redis.call('HSETNX', KEYS[1], 'channel', '') == 1 then redis.call('HINCRBY', KEYS[1], 'pages', 1) end
    return 0
    """)

  /// KEYS: `ExpansionKeys.all`. ARGV: letter, reason, now (ms), TTL (s). The first end counts.
  ///
  /// Replies like `settle`.
  package static let settleBroadcast = LuaScript(
    takeOver + """
      local key = KEYS[1]
      local known = redis.call('HMGET', key, 'phase', 'channel', 'ordinal', 'pages', 'settled')
      if not known[1] or known[1] == 'completed' then return 0 end
      local settled = known[5]
      if known[2] == '' and ARGV[1] ~= '-' then
        redis.call('HSET', key, 'channel', ARGV[1], 'channel_reason', ARGV[2])
        settled = tostring(redis.call('HINCRBY', key, 'settled', 1))
        redis.call('EXPIRE', key, ARGV[4])
      end
      if known[3] ~= '' or known[4] ~= settled then return 0 end
      redis.call('HSETNX', key, 'ended', ARGV[3])
      return 1
      """)

  /// KEYS: state. The newest state of its activity is about to be broadcast once more.
  ///
  /// Replies 1; 0 = that was called before, or the job is unknown.
  package static let repeatBroadcast = LuaScript(
    """
    if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
    return redis.call('HSETNX', KEYS[1], 'broadcast', '1')
    """)

  /// KEYS: state. ARGV: why a step finds no more devices. An unknown job stays unknown.
  package static let endEarly = LuaScript(
    """
    if redis.call('EXISTS', KEYS[1]) == 1 then redis.call('HSET', KEYS[1], 'early', ARGV[1]) end
    return 0
    """)

  /// KEYS: state. ARGV: `ExpansionProgress.Kept`. A cancelled job that may have been sent stays its activity's newest. An unknown job stays unknown.
  package static let keep = LuaScript(
    """
    if redis.call('EXISTS', KEYS[1]) == 1 then redis.call('HSET', KEYS[1], 'kept', ARGV[1]) end
    return 0
    """)

  /// KEYS: `ExpansionKeys.all`. Replies all fields and their values.
  package static let progress = LuaScript(takeOver + "return redis.call('HGETALL', KEYS[1])")

  /// KEYS: `ExpansionKeys.all`. Replies phase, `cancelled` and `kept`.
  package static let standing = LuaScript(
    takeOver + "return redis.call('HMGET', KEYS[1], 'phase', 'cancelled', 'kept')")

  /// KEYS: state, body, pages, ordinals. ARGV: TTL (s), now (ms). Stores that the job's outcome is published.
  package static let finish = LuaScript(
    """
    redis.call('DEL', KEYS[2], KEYS[3], KEYS[4])
    if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
    redis.call('HSETNX', KEYS[1], 'ended', ARGV[2])
    redis.call('HSET', KEYS[1], 'phase', 'completed')
    redis.call('EXPIRE', KEYS[1], ARGV[1])
    return 1
    """)
}
