import PushCore

/// The script that decides everything about (job, target)s, and the format that it shares with the scripts that change one device
/// (`RedisDeviceScript`).
///
/// Everything about a device is in one key, `<prefix>{<device>}`, because Redis spends most of its time on finding and creating keys: the
/// device's rates, whether it is dead, and its jobs, oldest first: those in flight (claims), and their results (answers). A value begins
/// with the format's version (`version`); a value with any other version is ignored and overwritten. Then come records, each a kind (1
/// byte) and its fields. Numbers are little-endian.
///
/// | kind | fields |
/// | --- | --- |
/// | 1 | a rate: theoretical arrival (Unix µs, 7 bytes), name of its rule (`RateRule.stateName`, 4), its run (`RateState`, modulo 256) |
/// | 2 | until when (Unix s, 4 bytes) delayed jobs may have separate keys, `<prefix>{<device>}:c<hash of the collapse id>` |
/// | 3 | the token is dead: since when (Unix ms, a double), when that expires (Unix s, 4 bytes) |
/// | 4 | until when (Unix s, 4 bytes) more jobs may be in separate keys, `<prefix>{<device>}:d:<name>`: a record each |
/// | 5 | a claim: name of the job (8), its number (3: of its 4 bytes, the first), for how long it was made (s, 1; 255: as long as the reader's, or so long), until when the answer is expected (Unix s, 4), run of the rate (1) |
/// | 161 | an answer: length of the rest (1 byte), name of the job (8), the outcome (`RememberedOutcome.encode`) |
///
/// How a message ended without an answer of APNs is in `<prefix>{<device>}:f:<name>`: number of its last claim (4), when (Unix ms, a double),
/// the outcome. It holds for other deliveries and copies of the message, not for what is published again with the job's id.
///
/// Claims and answers come after all other records. A worker stores an answer with one `APPEND`, without a read. The answer expires the
/// outcomes' lifetime after its claim does (of several, the last one's: each copy that takes a job over claims and is answered), so all
/// expiries use Redis' own clock. A claim that expired without an answer is kept as long. A job's records are found by its name and kind
/// at any position, so an unreadable record hides no others.
package enum RedisScript {
  /// The first byte of a value.
  static let version: UInt8 = 209
  /// A record with an answer. Also the first byte of a value that consists of an answer alone, because Redis had lost the device's value.
  static let answerKind: UInt8 = 161

  /// The scripts that every connection loads, by their numbers there.
  static let all = [admit, RedisDeviceScript.tell, probe]
  static let admitNumber = 0
  static let tellNumber = 1
  static let probeNumber = 2

  /// Whether an admission would be carried out and could store something: its commands, on a key of its own. A `PING`, or a write
  /// alone, would find a server well whose user may not read, or may not run scripts.
  ///
  /// KEYS: the key.
  static let probe = """
    redis.call('TIME')
    redis.call('GET', KEYS[1])
    redis.call('MGET', KEYS[1])
    redis.call('TTL', KEYS[1])
    local answer = redis.call('SET', KEYS[1], '1', 'PX', '1000')
    redis.call('DEL', KEYS[1])
    return answer
    """

  /// Admits all that a turn of the lane asks for in one call: the call itself costs Redis as much as a write. All values are read with one
  /// command, because each further command costs the script more than the command itself. A single one is read alone: in a cluster, a slot
  /// that is being migrated refuses commands with several keys, and keys that it does not have. An admitted job has a key afterwards, which
  /// lives as long as the answer will.
  ///
  /// KEYS: one device each. ARGV: one ask each, then the settings (`RedisAdmissionCall` writes both). An ask: the rule's number (1 byte,
  /// 255: none; 254: the job's time is over, so it is not charged and leaves no claim), name of the job (8), number of its claim (4),
  /// registered at (Unix ms). For a job with a collapse id, and for one that comes again, also the hash of the collapse id (8, the first
  /// one 0: none), and when it was enqueued (Unix ms). For one that comes again, also the number of its earlier claim (4, 0: none), and how
  /// it comes (1 = from a retry queue; plus 2 = it takes over old claims, 4 = any: `Takeover`; plus 8 = dropped if over its rate; plus 16 =
  /// redelivered; plus 32 = asked about before by its lane), and when it was published at the earliest (Unix ms, 0: not known). For one with a collapse id whose order is known, all of these, and its `JobOrder` (earliest, latest): the places of the last four jobs are in a
  /// separate key, `<prefix>{<device>}:s<hash of the collapse id>`, the newest first: each in decimal, the job's name in hex, `!` if it ended superseded, a comma.
  /// Settings: lifetime of delayed jobs' keys (s), of an answer (s), of a claim (s), the age until which a claim is waited for (s), then interval and tolerance (µs; interval 0: no rate
  /// but APNs' refusals) and name (4 bytes) of each rule. Numbers are doubles unless stated otherwise.
  ///
  /// The reply is 0 if all proceed, else a list with an answer for each: 0 = proceed, n > 0 = over its rate for n ms, n < 0 = dead since -n
  /// (Unix ms), a bulk = answered before, with the remembered outcome, an error = proceed, but a write failed (a replica, out of memory);
  /// writes come last, so the error also says "neither answered nor dead". A status: `claimed n` = in flight, for n ms at most;
  /// `superseded` by a newer job with its collapse id; `behind` an older one that is in flight, to be asked about again; `repeated`,
  /// followed by one of the numbers or `superseded` = that decision, but a copy was admitted before and its result is unknown.
  package static let admit = #"""
    local call, pcall, byte, find, sub, format, min, max, ceil, pack, number_of =
      redis.call, redis.pcall, string.byte, string.find, string.sub, string.format, math.min, math.max, math.ceil, struct.pack,
      struct.unpack
    local settings = ARGV[#KEYS + 1]
    local delayed, remembered, promised, patience = number_of('<dddd', settings)
    local kept = remembered + promised
    local time = call('TIME')
    local seconds = tonumber(time[1])
    local now = seconds * 1000000 + time[2]
    local deadline = pack('<BI4', min(promised, 255), seconds + promised)
    local newly = deadline .. '\0'
    local written, rules = {}, {}

    local function get(key)
      local value = pcall('GET', key)
      return type(value) == 'string' and value
    end

    local values = #KEYS > 1 and call('MGET', unpack(KEYS)) or {get(KEYS[1])}

    local function rule_of(number)
      local rule = {interval = 0, tolerance = 0, name = ''}
      if number < 254 then
        rule.interval, rule.tolerance = number_of('<dd', settings, 33 + number * 20)
        rule.name = sub(settings, 49 + number * 20, 52 + number * 20)
      end
      rule.first = '\209'
      if rule.interval > 0 then rule.first = rule.first .. pack('<BI7', 1, now + rule.interval) .. rule.name .. '\0' end
      rule.first = rule.first .. '\5'
      rule.life = format('%.0f', kept + ceil(rule.interval / 1000000))
      rules[number] = rule
      return rule
    end

    local function hex(name)
      return format('%08x%08x', number_of('>I4I4', name))
    end

    -- What stands in front of a device's jobs. Places are nothing, behind the version, where there is no such record.
    local first, last, arrival, run, latest -- its rate; the latest arrival of all its rates
    local waiting, waiting_first, waiting_last -- until when delayed jobs have keys
    local dead, dead_ends, dead_first, dead_last -- since when, and when that is forgotten
    local elsewhere, elsewhere_first, elsewhere_last -- until when jobs have keys
    local row -- where those start that lie here
    local function read(value, name)
      local at, size = 2, #value
      first, last, arrival, run, latest = 2, 1, 0, 0, 0
      waiting, waiting_first, waiting_last, dead, dead_ends = 0, 2, 1, nil, 0
      elsewhere, elsewhere_first, elsewhere_last = 0, 2, 1
      local kind = byte(value, 2)
      while kind and kind > 0 and kind < 5 do
        local stop = at + ((kind == 1 or kind == 3) and 12 or 4)
        if stop > size then break end
        if kind == 1 then
          local its = number_of('<I7', value, at + 1)
          latest = max(latest, its)
          if sub(value, at + 8, at + 11) == name then first, last, arrival, run = at, stop, its, byte(value, stop) end
        elseif kind == 2 then
          waiting, waiting_first, waiting_last = number_of('<I4', value, at + 1), at, stop
        elseif kind == 3 then
          dead, dead_ends = number_of('<dI4', value, at + 1)
          dead_first, dead_last = at, stop
        else
          elsewhere, elsewhere_first, elsewhere_last = number_of('<I4', value, at + 1), at, stop
        end
        at = stop + 1
        kind = byte(value, at)
      end
      row = at
    end

    -- Where the record begins and ends whose job's name is there; nothing where that is no name.
    local function record_at(value, at)
      local count = byte(value, at - 1)
      if count == 5 and at + 16 <= #value then return at - 1, at + 16, true end
      if count and count > 8 and byte(value, at - 2) == 161 and at - 1 + count <= #value then return at - 2, at - 1 + count, false end
    end

    -- Its answer, else its claim: number, until when, run, age. Workers may make claims for other times than this one does.
    local function look(value, name, from)
      local answer, number, ends, its_run, age
      local at = find(value, name, from, true)
      while at do
        local start, stop, is_claim = record_at(value, at)
        if is_claim then
          number, ends, its_run = sub(value, at + 8, at + 10), number_of('<I4', value, at + 12), byte(value, at + 16)
          local lasts = byte(value, at + 11)
          age = seconds + (lasts == 255 and max(promised, 255) or lasts) - ends
        elseif start then
          answer = sub(value, at + 8, stop)
        end
        at = find(value, name, at + 1, true)
      end
      if ends and ends + remembered <= seconds then return end
      return answer, number, ends, its_run, age
    end

    -- Whether it is with a worker that does not hang, unanswered: its name in hex.
    local function is_on_way(value, name)
      local high, low = tonumber(sub(name, 1, 8), 16), tonumber(sub(name, 9, 16), 16)
      local answer, _, _, _, age = look(value, pack('>I4I4', high, low), row)
      return not answer and age and age < patience
    end

    local function without(value, name)
      local at = find(value, name, row, true)
      while at do
        local start, stop = record_at(value, at)
        if start then value = sub(value, 1, start - 1) .. sub(value, stop + 1) end
        at = find(value, name, start or at + 1, true)
      end
      return value
    end

    -- Of a device that is pushed often the newest jobs stay, and older ones get keys of their own, some at a time. What is on its
    -- way stays, for its answer will be stored here.
    local function shortened(device, given)
      read(given, '')
      local value, at, moved, until_when, left = given, row, 0, elsewhere, ''
      while #value - at > 256 and moved < 16 do
        local kind, stop, record, name, its = byte(value, at), at, nil, nil, nil
        if kind == 5 and at + 17 <= #value then
          stop, name, its = at + 17, sub(value, at + 1, at + 8), number_of('<I4', value, at + 13) + remembered
          record = sub(value, at, stop)
          -- Its answer goes with it, for its end is the claim's. Where a copy took the job over, both are answered.
          local all, awaited, later = record, 1, find(value, name, stop + 1, true)
          while later do
            local start, finish, is_claim = record_at(value, later)
            if start then
              if is_claim then its = number_of('<I4', value, later + 12) + remembered end
              if not is_claim or byte(record) == 5 then record = sub(value, start, finish) end
              all, awaited = all .. sub(value, start, finish), awaited + (is_claim and 1 or -1)
              value = sub(value, 1, start - 1) .. sub(value, finish + 1)
            end
            later = find(value, name, start or later + 1, true)
          end
          if awaited > 0 and its - remembered > seconds then record, left = nil, left .. all end
        elseif kind == 161 and record_at(value, at + 2) then
          stop, name, its = at + 1 + byte(value, at + 1), sub(value, at + 2, at + 9), seconds + remembered
          record = sub(value, at, stop)
        end
        if record and its > seconds then
          local stored = pcall('SET', device .. ':d:' .. hex(name), record, 'EX', format('%.0f', its - seconds))
          if stored.err then return given end
          until_when = max(until_when, its)
        end
        at, moved = stop + 1, moved + 1
      end
      return sub(value, 1, elsewhere_first - 1) .. sub(value, elsewhere_last + 1, row - 1) .. pack('<BI4', 4, until_when)
        .. left .. sub(value, at)
    end

    local function life()
      return format('%.0f', max(kept + ceil(max(0, latest - now) / 1000000), dead_ends - seconds, waiting - seconds))
    end

    local function write(device, value, life)
      local stored = pcall('SET', device, value, 'EX', life)
      if stored.err then return stored end
      written[device] = value
      return 0
    end

    -- Unless a newer job superseded it: charges the rate and leaves a claim, in the place of what the job had before, or behind it if it may still be answered
    -- (`is_shared`). Its own claim is made anew, and was paid for.
    local function charge(device, ask, value, rule, has_records, charged, claim, is_own, is_shared)
      local collapsed, received, newest, whose, ordered, places, own, ahead_of_it
      local has_collapse = #ask > 21 and byte(ask, 22) ~= 0
      if has_collapse then whose = ' ' .. hex(sub(ask, 2, 9)) end
      -- Also of its own claim: it waited, and a newer one came meanwhile.
      if has_collapse and #ask > 50 then
        ordered = device .. ':s' .. sub(ask, 22, 29)
        local earliest, latest = number_of('<dd', ask, 51)
        places = get(ordered) or ''
        -- Of a version that kept one.
        if #places > 0 and byte(places, -1) ~= 44 then places = places .. ',' end
        local first, holder = string.match(places, '^(%d+)( %x+)')
        local known = tonumber(first)
        local _, all = find(places, '^[^,]*,[^,]*,[^,]*,[^,]*,')
        -- It is as new as its first copy, however it comes again: published twice, or taken from a worker that ended. One that was admitted,
        -- and has no place among the last ones, is older than they are. Of two that are as new as each other, the one that came last is newer.
        own = find(places, whose, 1, true)
        local came_before = own or byte(ask, 42) > 31
        if own then
          local its = tonumber(string.match(sub(places, 1, own - 1), '%d+$'))
          earliest, latest = min(earliest, its), min(latest, its)
        elseif all and claim then
          latest = 0
        end
        -- A copy of its own may have another place.
        if known and (known > latest or known == latest and came_before) and holder ~= whose then
          -- Its claim holds up nobody any more.
          if own and claim and not is_shared then
            places = string.gsub(places, whose .. ',', whose .. '!,')
            pcall('SET', ordered, places, 'EX', format('%.0f', max(delayed, remembered)))
          end
          return redis.status_reply('superseded')
        end
        if not own then
          local place = format('%.0f', earliest) .. whose .. ','
          if known and known > earliest then
            local stop = find(places, ',', 1, true)
            places = sub(places, 1, stop) .. place .. sub(places, stop + 1)
          else
            places = place .. places
          end
        end
        -- What is on its way would race with this one to APNs, and keeps its place.
        if not is_own then
          for entry, name in string.gmatch(places, '(%d+ (%x+),)') do
            if ' ' .. name ~= whose and is_on_way(value, name) then ahead_of_it = entry end
          end
        end
        _, all = find(places, '^[^,]*,[^,]*,[^,]*,[^,]*,')
        if all and all < #places then
          local cut = ahead_of_it and (find(places, ahead_of_it, 1, true)) > all
          places = cut and string.match(places, '^[^,]*,[^,]*,[^,]*,') .. ahead_of_it or sub(places, 1, all)
        end
      elseif has_collapse and not is_own then
        collapsed, received = device .. ':c' .. sub(ask, 22, 29), number_of('<d', ask, 30)
        local known = waiting > seconds and get(collapsed)
        newest = known and tonumber(string.match(known, '^%d+'))
        -- A copy of its own, published later, is not newer than it.
        if newest and newest > received and sub(known, -17) ~= whose and #ask > 37
          and byte(ask, 42) % 2 == 1
        then
          return redis.status_reply('superseded')
        end
      end
      -- Its time is over.
      if byte(ask) == 254 then return 0 end
      local ahead = max(arrival - now, 0)
      local is_paid = is_own or ahead > 0 and charged == run
      local wait = is_paid and 0 or ahead - rule.tolerance
      if wait > 0 and #ask > 37 and byte(ask, 42) % 16 > 7 then
        -- It has a place if it waited for one on its way; dropped, it supersedes nothing.
        if own and not claim then
          places = string.gsub(places, '%d+' .. whose .. ',', '')
          pcall('SET', ordered, places, 'EX', format('%.0f', max(delayed, remembered)))
        end
        return ceil(wait / 1000)
      end
      if places then pcall('SET', ordered, places, 'EX', format('%.0f', max(delayed, remembered))) end
      if collapsed and (wait > 0 or newest) and received > (newest or 0) then
        pcall('SET', collapsed, format('%.0f', received) .. whose, 'EX', format('%.0f', delayed))
        if waiting < seconds + delayed then
          value = sub(value, 1, waiting_first - 1) .. sub(value, waiting_last + 1)
          value = '\209' .. pack('<BI4', 2, seconds + 2 * delayed) .. sub(value, 2)
          read(value, rule.name)
          write(device, value, life())
        end
      end
      if wait > 0 then return ceil(wait / 1000) end
      if ahead_of_it then return redis.status_reply('behind') end
      if has_records and not is_shared then value = without(value, sub(ask, 2, 9)) end
      if rule.interval > 0 and not is_paid then
        if ahead == 0 and last > first then run = (run + 1) % 256 end
        local its = now + ahead + rule.interval
        latest = max(latest, its)
        value = sub(value, 1, first - 1) .. pack('<BI7', 1, its) .. rule.name .. string.char(run) .. sub(value, last + 1)
      end
      value = value .. '\5' .. sub(ask, 2, 12) .. deadline .. string.char(is_own and charged or run)
      local lives = life()
      return write(device, #value > 512 and shortened(device, value) or value, lives)
    end

    local function admit(device, ask, value)
      local number = byte(ask)
      local rule = rules[number] or rule_of(number)
      if value then
        local kind = byte(value)
        value = kind == 209 and value or kind == 161 and '\209' .. value
      end
      if not value and #ask < 42 and number ~= 254 then return write(device, rule.first .. sub(ask, 2, 12) .. newly, rule.life) end
      value = value or '\209'
      read(value, rule.name)
      local name = sub(ask, 2, 9)
      local has_records = find(value, name, row, true)
      local answer, claim, ends, charged, age
      if has_records then answer, claim, ends, charged, age = look(value, name, row) end
      if elsewhere > seconds and not answer and not claim then
        local other = get(device .. ':d:' .. hex(name))
        if other then answer, claim, ends, charged, age = look(other, name, 1) end
      end
      if answer then return answer end
      local before, how = '\0\0\0\0', 0
      if #ask > 37 then
        before, how = sub(ask, 38, 41), byte(ask, 42) % 8
        local fate = (how % 2 == 1 or byte(ask, 42) % 32 > 15) and get(device .. ':f:' .. hex(name))
        -- What was published again since has another claim, or none yet; but it is younger than the end.
        if fate and #fate > 12 and (not claim or claim == sub(fate, 1, 3))
          and number_of('<d', ask, 43) <= number_of('<d', fate, 5)
        then
          return sub(fate, 13)
        end
      end
      local is_repeated, is_own = false, false
      if claim then
        is_own = claim == sub(ask, 10, 12)
        if claim ~= sub(before, 1, 3) and not is_own then
          if ends > seconds and (how < 2 or how < 4 and age < \#(Takeover.oldClaimSeconds)) then
            return redis.status_reply('claimed ' .. format('%.0f', ceil(ends * 1000 - now / 1000)))
          end
          is_repeated = true
        end
      else
        -- The claim of the attempt before it was forgotten, and with it who else had the job since.
        is_repeated = how % 2 == 1 and before ~= '\0\0\0\0'
      end
      if dead and dead_ends > seconds then
        if number_of('<d', ask, 14) <= dead then
          answer = -dead
        else
          value = sub(value, 1, dead_first - 1) .. sub(value, dead_last + 1)
          read(value, rule.name)
          write(device, value, life())
        end
      end
      answer = answer or charge(device, ask, value, rule, has_records, charged, claim, is_own, is_repeated and claim)
      if not is_repeated then return answer end
      if type(answer) == 'number' then return redis.status_reply('repeated ' .. format('%.0f', answer)) end
      return answer.ok and answer.ok ~= 'behind' and redis.status_reply('repeated ' .. answer.ok) or answer
    end

    local answers
    for index = 1, #KEYS do
      local device = KEYS[index]
      local answer = admit(device, ARGV[index], written[device] or values[index])
      if answer ~= 0 then
        if not answers then
          answers = {}
          for other = 1, #KEYS do answers[other] = 0 end
        end
        answers[index] = answer
      end
    end
    return answers or 0
    """#
}
