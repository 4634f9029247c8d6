/// The scripts that Redis runs: one decides all about (job, target)s, others change what is known of a device.
///
/// All that is known of a device lies in one key, `<prefix>{<device>}`, for most of Redis' time goes into finding and making keys:
/// its rates, whether it is dead, and the answers to its jobs, the oldest first. An answer is told with one `APPEND`, without a
/// look. The value is a row of records, each of them a kind (1 byte), the count of what follows (1 byte), and that. Numbers are
/// little-endian.
///
/// | kind | what follows |
/// | --- | --- |
/// | 0 … 237 | the rate of that number: theoretical arrival (Unix µs, 7 bytes); the last charges, 4 bytes each, the last one first |
/// | 238 | until when (Unix s, 4 bytes) delayed jobs may have keys of their own, `<prefix>{<device>}:c<hash of the collapse id>` |
/// | 239 | the token is dead: since when (Unix ms, a double), when that is forgotten (Unix s, 4 bytes) |
/// | 240 | until when (Unix s, 4 bytes) more answers may lie in keys of their own, `<prefix>{<device>}:d:<name>` |
/// | 241 | an answer: name of the job (8), when it is forgotten (Unix s, 4 bytes), the outcome (`RememberedOutcome.encode`) |
///
/// Redelivered while the first delivery is in flight: the rate's record names the last charges (see `RateState`), so the
/// second one proceeds and costs nothing. A rate means nothing any more once the device has its whole burst again.
enum RedisScript {
  /// A record with an answer.
  static let answerKind: UInt8 = 241

  /// How long the device's key outlives its rates and answers, in seconds: the time that a job may be on its way to APNs. What is
  /// told of it then needs no look at the key's end.
  static let slackSeconds: Int64 = 60

  /// Admits what a turn of the lane asks for, in one call: the call itself costs Redis as much as a write. What is known of all
  /// of them is read at once, for each further call of a command costs the script more than the command; a single one's alone,
  /// for in a cluster a slot that is between two nodes takes no command with several keys, and refuses keys that it has not.
  /// Who may be sent to has its key afterwards, and the key lives as long as the answer will.
  ///
  /// KEYS: a device each. ARGV: an ask each, then the settings (`RedisAdmissions` writes both). An ask: the rate's number (1
  /// byte, 255: none), name of the job (8), registered at (Unix ms), and of a job with a collapse id, or one that comes back, the
  /// hash of the collapse id (8, the first one 0: none), first receipt (Unix ms), and of one that comes back the number of its copy.
  /// Settings: life of what is kept of delayed jobs and of copies (s), life of a device's key (s), then interval and tolerance of each
  /// rate (µs; interval 0: no rate but what `tighten` left). Where nothing else is said numbers are doubles.
  ///
  /// The reply is 0 where all proceed; else a list with an answer for each: 0 = proceed, n > 0 = over its rate for n ms, n < 0 =
  /// dead since -n (Unix ms), a bulk = answered before, with the remembered outcome, an error = proceed, but something could not
  /// be written (a replica, out of memory): that is done last, so the error also says "neither answered nor dead". A status:
  /// `superseded` by a newer job of its collapse id, `repeated n` = 0 or n > 0 as above, but this copy was asked about before.
  ///
  /// The claim's value: the newest copy that was asked about, by its first receipt and its number.
  static let admit = """
    local call, pcall, byte, find, sub, format, max, ceil, pack, number_of =
      redis.call, redis.pcall, string.byte, string.find, string.sub, string.format, math.max, math.ceil, struct.pack, struct.unpack
    local settings = ARGV[#KEYS + 1]
    local delayed, kept = number_of('<dd', settings)
    local time = call('TIME')
    local seconds = tonumber(time[1])
    local now = seconds * 1000000 + time[2]
    local written, rates = {}, {}

    local function get(key)
      local value = pcall('GET', key)
      return type(value) == 'string' and value
    end

    local values = #KEYS > 1 and call('MGET', unpack(KEYS)) or {get(KEYS[1])}

    local function rate_of(number)
      local interval, tolerance = number_of('<dd', settings, 17 + number * 16)
      local known = {
        interval = interval, tolerance = tolerance, first = pack('<BBI7', number, 11, now + interval),
        life = format('%.0f', kept + ceil(interval / 1000000))}
      rates[number] = known
      return known
    end

    local function hex(name)
      return format('%08x%08x', number_of('>I4I4', name))
    end

    -- Where the record ends that starts here; nil: there is none with so many bytes.
    local function stop_of(value, at, least)
      local count = byte(value, at + 1)
      if count and count >= least and at + 1 + count <= #value then return at + 1 + count end
    end

    -- What stands in front of a device's answers. Places are nothing, in front of all, where there is no such record.
    local first, last, latest -- its rate's place; the latest arrival of all its rates
    local waiting, waiting_first, waiting_last -- until when delayed jobs have keys
    local dead, dead_ends, dead_first, dead_last -- since when, and when that is forgotten
    local elsewhere, elsewhere_first, elsewhere_last -- until when answers have keys
    local answers_at -- where those start that lie here
    local function read(value, number)
      local at = 1
      first, last, latest, waiting, waiting_first, waiting_last = 1, 0, 0, 0, 1, 0
      dead, dead_ends, elsewhere, elsewhere_first, elsewhere_last = nil, 0, 0, 1, 0
      local kind = byte(value)
      while kind and kind < 241 do
        local stop = stop_of(value, at, kind < 238 and 7 or kind == 239 and 12 or 4)
        if not stop then break end
        if kind < 238 then
          latest = max(latest, number_of('<I7', value, at + 2))
          if kind == number then first, last = at, stop end
        elseif kind == 238 then
          waiting, waiting_first, waiting_last = number_of('<I4', value, at + 2), at, stop
        elseif kind == 239 then
          dead, dead_ends = number_of('<dI4', value, at + 2)
          dead_first, dead_last = at, stop
        else
          elsewhere, elsewhere_first, elsewhere_last = number_of('<I4', value, at + 2), at, stop
        end
        at = stop + 1
        kind = byte(value, at)
      end
      answers_at = at
    end

    local function answered(device, value, ask)
      local name, at, answer = sub(ask, 2, 9), answers_at, nil
      if elsewhere > seconds then answer = get(device .. ':d:' .. hex(name)) end
      if not find(value, name, at, true) then return answer end
      local stop = stop_of(value, at, 12)
      while stop do
        if sub(value, at + 2, at + 9) == name and number_of('<I4', value, at + 10) > seconds then
          answer = sub(value, at + 14, stop)
        end
        at = stop + 1
        stop = stop_of(value, at, 12)
      end
      return answer
    end

    -- Of a device that is pushed often the newest answers stay, and older ones get keys of their own.
    local function shortened(device, value)
      local at, ends, answers = answers_at, elsewhere, {}
      local stop = stop_of(value, at, 12)
      while stop do
        if number_of('<I4', value, at + 10) > seconds then answers[#answers + 1] = sub(value, at, stop) end
        at = stop + 1
        stop = stop_of(value, at, 12)
      end
      local older = max(#answers - 8, 0)
      for index = 1, older do
        local answer = answers[index]
        local its = number_of('<I4', answer, 11)
        local stored = pcall('SET', device .. ':d:' .. hex(sub(answer, 3, 10)), sub(answer, 15), 'EX', its - seconds)
        if stored.err then return value end
        ends = max(ends, its)
      end
      local head = sub(value, 1, elsewhere_first - 1) .. sub(value, elsewhere_last + 1, answers_at - 1)
      return head .. pack('<BBI4', 240, 4, ends) .. table.concat(answers, '', older + 1)
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

    local function keep(device, value)
      if value and #value <= 512 then
        local stored = pcall('EXPIRE', device, life())
        return type(stored) == 'table' and stored or 0
      end
      return write(device, value and shortened(device, value) or pack('<BBI4', 240, 4, 0), life())
    end

    local function charge(device, ask, value, rate)
      if not rate then return keep(device, value) end
      local collapsed, received, newest
      if #ask > 17 and byte(ask, 18) ~= 0 then
        collapsed, received = device .. ':c' .. sub(ask, 18, 25), number_of('<d', ask, 26)
        newest = waiting > seconds and tonumber(get(collapsed))
        if newest and newest > received and #ask > 33 then return redis.status_reply('superseded') end
      end
      local mine, ahead, charges = sub(ask, 2, 5), 0, ''
      local arrival = last > 0 and number_of('<I7', value, first + 2)
      if arrival and arrival > now then
        charges = sub(value, first + 9, last)
        if find(charges, mine, 1, true) then return keep(device, value) end
        ahead, charges = arrival - now, sub(charges, 1, 28)
      end
      local wait = ahead - rate.tolerance
      if collapsed and (wait > 0 or newest) and received > (newest or 0) then
        pcall('SET', collapsed, format('%.0f', received), 'EX', format('%.0f', delayed))
        if waiting < seconds + delayed then
          value = sub(value, 1, waiting_first - 1) .. sub(value, waiting_last + 1)
          value = pack('<BBI4', 238, 4, seconds + 2 * delayed) .. value
          read(value, byte(ask))
          write(device, value, life())
        end
      end
      if wait > 0 then return ceil(wait / 1000) end
      if rate.interval == 0 then return keep(device, value) end
      arrival = now + ahead + rate.interval
      local charged = pack('<BBI7', byte(ask), 11 + #charges, arrival) .. mine .. charges
      if value then charged = sub(value, 1, first - 1) .. charged .. sub(value, last + 1) end
      read(charged)
      return write(device, #charged > 512 and shortened(device, charged) or charged, life())
    end

    local function claim(device, ask)
      local copy = number_of('<d', ask, 34)
      local key, mine = device .. ':a:' .. hex(sub(ask, 2, 9)), number_of('<d', ask, 26) * 4096 + math.min(copy, 4095)
      local newest = get(key)
      if newest and tonumber(newest) >= mine then return 'repeated ' end
      local stored = pcall('SET', key, format('%.0f', mine), 'EX', format('%.0f', delayed))
      return stored.err and stored
    end

    local function admit(device, ask, value)
      local number = byte(ask)
      local rate = number ~= 255 and (rates[number] or rate_of(number))
      if not value and #ask < 41 and rate and rate.interval > 0 then return write(device, rate.first .. sub(ask, 2, 5), rate.life) end
      read(value or '', number)
      local answer = value and answered(device, value, ask)
      if answer then return answer end
      if dead and dead_ends > seconds then
        if number_of('<d', ask, 10) <= dead then return -dead end
        value = sub(value, 1, dead_first - 1) .. sub(value, dead_last + 1)
        read(value, number)
        write(device, value, life())
      end
      local claimed = #ask > 33 and claim(device, ask)
      answer = charge(device, ask, value, rate)
      if not claimed or type(answer) == 'table' then return answer end
      return type(claimed) == 'table' and claimed or redis.status_reply(claimed .. answer)
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
    """

  /// Tells an answer late, when the device's key may be about to end. KEYS: device. ARGV: record of the answer, life of the key (s).
  static let tell = """
    redis.call('APPEND', KEYS[1], ARGV[1])
    if redis.call('TTL', KEYS[1]) < tonumber(ARGV[2]) then redis.call('EXPIRE', KEYS[1], ARGV[2]) end
    return 0
    """

  /// KEYS: device. ARGV: the rate's number, so far ahead of the clock (µs), life of the key behind that (s). What was charged is
  /// forgotten: the refused request must wait too.
  static let tighten =
    change + """
      local number, arrival = tonumber(ARGV[1]), now + tonumber(ARGV[2])
      if rates[number] then arrival = math.max(arrival, rates[number].arrival) end
      rates[number] = {arrival = arrival, charges = ''}
      store(ARGV[3] + math.ceil((arrival - now) / 1000000))
      return 0
      """

  /// Tells an answer, and that the token is dead. KEYS: device. ARGV: record of the answer, life of the device's key (s), mark (Unix
  /// ms), its seconds. Of two marks the later one stays.
  static let bury =
    change + """
      answers = answers .. ARGV[1]
      dead, ends = math.max(dead or 0, tonumber(ARGV[3])), seconds + ARGV[4]
      store(tonumber(ARGV[2]))
      return 0
      """

  /// KEYS: device. ARGV: mark (Unix ms), its seconds. Replies the mark that is there now, and its seconds.
  static let mark =
    change + """
      dead, ends = math.max(dead or 0, tonumber(ARGV[1])), seconds + ARGV[2]
      store(0)
      return {dead, ends - seconds}
      """

  /// KEYS: device. Replies its mark and how long it lives (s); nothing where it has none.
  static let show =
    change + """
      return dead and {dead, ends - seconds}
      """

  /// KEYS: device. Takes its mark away.
  static let forget =
    change + """
      dead = nil
      if next(rates) or answers ~= '' then store(0) else redis.call('DEL', KEYS[1]) end
      return 0
      """

  /// Takes a device's value apart, and puts it together again: what is done seldom.
  private static let change = """
    local time = redis.call('TIME')
    local seconds = tonumber(time[1])
    local now = seconds * 1000000 + time[2]
    local value = redis.call('GET', KEYS[1]) or ''
    local rates, waiting, dead, ends, elsewhere, at = {}, 0, nil, 0, 0, 1
    local kind, count = string.byte(value, 1, 2)
    while count and kind < 241 and count >= (kind < 238 and 7 or kind == 239 and 12 or 4) and at + 1 + count <= #value do
      if kind < 238 then
        rates[kind] = {arrival = struct.unpack('<I7', value, at + 2), charges = string.sub(value, at + 9, at + 1 + count)}
      elseif kind == 238 then
        waiting = struct.unpack('<I4', value, at + 2)
      elseif kind == 239 then
        dead, ends = struct.unpack('<dI4', value, at + 2)
        if ends <= seconds then dead = nil end
      else
        elsewhere = struct.unpack('<I4', value, at + 2)
      end
      at = at + 2 + count
      kind, count = string.byte(value, at, at + 1)
    end
    local answers = string.sub(value, at)

    local function store(life)
      local parts = {}
      for number, rate in pairs(rates) do
        parts[#parts + 1] = struct.pack('<BBI7', number, 7 + #rate.charges, rate.arrival) .. rate.charges
      end
      if waiting > seconds then parts[#parts + 1] = struct.pack('<BBI4', 238, 4, waiting) end
      if dead then
        parts[#parts + 1] = struct.pack('<BBdI4', 239, 12, dead, ends)
        life = math.max(life, ends - seconds)
      end
      if elsewhere > seconds or #parts == 0 then parts[#parts + 1] = struct.pack('<BBI4', 240, 4, elsewhere) end
      life = math.max(life, redis.call('TTL', KEYS[1]), 1)
      redis.call('SET', KEYS[1], table.concat(parts) .. answers, 'EX', string.format('%.0f', life))
    end

    """
}
