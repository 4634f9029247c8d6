/// Scripts that change or read one device's state: operations that are rarer than admissions. `RedisScript` defines the format of the
/// value.
package enum RedisDeviceScript {
  /// Stores an answer whose claim may be missing, and that the token is dead. A missing claim is written before everything else, and an
  /// expired one again: then the answer after it has an expiry. Storing it twice is harmless.
  ///
  /// KEYS: device. ARGV: record of the answer, lifetime of the device's key (s), mark (Unix ms; 0: not dead), its seconds.
  static let tell =
    change + #"""
      local name = string.sub(ARGV[1], 3, 10)
      local at, claimed = string.find(row, name, 1, true), false
      while at do
        if string.byte(row, at - 1) == 5 and at + 16 <= #row then
          claimed = true
          -- One that ended may be too old to give the answer an end.
          if struct.unpack('<I4', row, at + 12) <= seconds then
            row = string.sub(row, 1, at + 11) .. struct.pack('<I4', seconds + 1) .. string.sub(row, at + 16)
          end
        end
        at = string.find(row, name, at + 1, true)
      end
      if not claimed then
        row = '\5' .. name .. '\0\0\0\0' .. struct.pack('<I4', seconds + 1) .. '\0' .. row
      end
      if not string.find(row, ARGV[1], 1, true) then row = row .. ARGV[1] end
      if tonumber(ARGV[3]) > 0 then dead, ends = math.max(dead or 0, tonumber(ARGV[3])), seconds + ARGV[4] end
      store(tonumber(ARGV[2]))
      return 0
      """#

  /// KEYS: device. ARGV: the rule's name, how far ahead of the clock (µs), lifetime of the key after that (s). The rate starts a new run:
  /// the refused request must wait too.
  static let tighten =
    change + """
      local known = rates[ARGV[1]] or {arrival = 0, run = 0}
      local arrival = math.max(known.arrival, now + tonumber(ARGV[2]))
      rates[ARGV[1]] = {arrival = arrival, run = (known.run + 1) % 256}
      store(ARGV[3] + math.ceil((arrival - now) / 1000000))
      return 0
      """

  /// KEYS: device. ARGV: mark (Unix ms), its seconds. The later of two marks stays. Replies the resulting mark and its seconds.
  package static let mark =
    change + """
      dead, ends = math.max(dead or 0, tonumber(ARGV[1])), seconds + ARGV[2]
      store(0)
      return {dead, ends - seconds}
      """

  /// KEYS: device. Replies its mark and the mark's remaining seconds; nothing if it has none.
  package static let show =
    change + """
      return dead and {dead, ends - seconds}
      """

  /// KEYS: device. Removes its mark.
  package static let forget =
    change + """
      dead = nil
      if next(rates) or row ~= '' then store(0) else redis.call('DEL', KEYS[1]) end
      return 0
      """

  /// Parses a device's value, and writes it again.
  private static let change = #"""
    local time = redis.call('TIME')
    local seconds = tonumber(time[1])
    local now = seconds * 1000000 + time[2]
    local value = redis.call('GET', KEYS[1]) or ''
    local format = string.byte(value)
    if format == 161 then value = '\209' .. value elseif format ~= 209 then value = '\209' end
    local rates, waiting, dead, ends, elsewhere, at = {}, 0, nil, 0, 0, 2
    local kind = string.byte(value, 2)
    while kind and kind > 0 and kind < 5 and at + ((kind == 1 or kind == 3) and 12 or 4) <= #value do
      if kind == 1 then
        rates[string.sub(value, at + 8, at + 11)] = {
          arrival = struct.unpack('<I7', value, at + 1), run = string.byte(value, at + 12)}
      elseif kind == 2 then
        waiting = struct.unpack('<I4', value, at + 1)
      elseif kind == 3 then
        dead, ends = struct.unpack('<dI4', value, at + 1)
        if ends <= seconds then dead = nil end
      else
        elsewhere = struct.unpack('<I4', value, at + 1)
      end
      at = at + ((kind == 1 or kind == 3) and 13 or 5)
      kind = string.byte(value, at)
    end
    local row = string.sub(value, at)

    local function store(life)
      local parts = {'\209'}
      for name, rate in pairs(rates) do
        parts[#parts + 1] = struct.pack('<BI7', 1, rate.arrival) .. name .. string.char(rate.run)
      end
      if waiting > seconds then parts[#parts + 1] = struct.pack('<BI4', 2, waiting) end
      if dead then
        parts[#parts + 1] = struct.pack('<BdI4', 3, dead, ends)
        life = math.max(life, ends - seconds)
      end
      if elsewhere > seconds then parts[#parts + 1] = struct.pack('<BI4', 4, elsewhere) end
      life = math.max(life, redis.call('TTL', KEYS[1]), 1)
      redis.call('SET', KEYS[1], table.concat(parts) .. row, 'EX', string.format('%.0f', life))
    end

    """#
}
