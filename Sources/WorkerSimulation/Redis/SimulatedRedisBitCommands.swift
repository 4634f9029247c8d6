/// Commands on parts and bits of strings.
extension SimulatedRedisKeyspace {
  private static let badOffset = SimulatedRedisReply.error("ERR bit offset is not an integer or out of range")
  /// `proto-max-bulk-len`.
  private static let bytesMaximum: Int64 = 512 << 20
  private static let setField = [Array("SET".utf8), Array("u1".utf8)]

  /// nil: not modelled.
  func runOnBits(_ command: SimulatedRedisCommand, _ words: [[UInt8]], _ database: Int) -> SimulatedRedisReply? {
    switch command {
    case .bitcount:
      guard words.count == 2 else { return nil }
      return withString(words[1], database) { bytes in
        .integer((bytes ?? []).reduce(0) { $0 + Int64($1.nonzeroBitCount) })
      }
    case .getrange:
      guard let first = SimulatedRedisNumber.integer(words[2]), let last = SimulatedRedisNumber.integer(words[3]) else {
        return Self.notANumber
      }
      return withString(words[1], database) { .bulk(Self.part(of: $0 ?? [], first, last)) }
    case .setrange:
      guard let offset = SimulatedRedisNumber.integer(words[2]) else { return Self.notANumber }
      if offset < 0 { return .error("ERR offset is out of range") }
      return change(words[1], database) { bytes in
        if words[3].isEmpty { return .integer(Int64(bytes.count)) }
        if offset > Self.bytesMaximum - Int64(words[3].count) {
          return .error("ERR string exceeds maximum allowed size (proto-max-bulk-len)")
        }
        let range = Int(offset)..<Int(offset) + words[3].count
        Self.extend(&bytes, to: range.upperBound)
        bytes.replaceSubrange(range, with: words[3])
        return .integer(Int64(bytes.count))
      }
    case .getbit:
      guard let place = Self.place(words[2]) else { return Self.badOffset }
      return withString(words[1], database) { .integer(Self.bit(of: $0 ?? [], place)) }
    case .setbit:
      guard let place = Self.place(words[2]) else { return Self.badOffset }
      guard let bit = Self.bit(words[3]) else { return .error("ERR bit is not an integer or out of range") }
      return change(words[1], database) { .integer(Self.set(bit, in: &$0, place)) }
    case .bitfield:
      // Herald sets bits.
      guard (words.count - 2) % 4 == 0 else { return nil }
      var bits: [(place: Int, bit: UInt8)] = []
      for start in stride(from: 2, to: words.count, by: 4) {
        guard words[start].map(SimulatedRedis.capital) == Self.setField[0], words[start + 1] == Self.setField[1],
          let bit = Self.bit(words[start + 3])
        else { return nil }
        guard let place = Self.place(words[start + 2]) else { return Self.badOffset }
        bits.append((place, bit))
      }
      if bits.isEmpty { return withString(words[1], database) { _ in .array([]) } }
      return change(words[1], database) { bytes in
        if let last = bits.map(\.place).max() { Self.extend(&bytes, to: last / 8 + 1) }
        return .array(bits.map { .integer(Self.set($0.bit, in: &bytes, $0.place)) })
      }
    default: preconditionFailure("no command on bits")
    }
  }

  /// Changes a string, and keeps its expiry. An empty one is not stored.
  private func change(
    _ key: [UInt8], _ database: Int, _ body: (inout [UInt8]) -> SimulatedRedisReply
  ) -> SimulatedRedisReply {
    withString(key, database) { known in
      var bytes = known ?? []
      let reply = body(&bytes)
      if !bytes.isEmpty, bytes != known {
        write(SimulatedRedisEntry(value: .string(bytes), endsAt: entry(key, database)?.endsAt), at: key, database)
      }
      return reply
    }
  }

  /// GETRANGE: both ends are included, and negative ones count from the end.
  private static func part(of bytes: [UInt8], _ first: Int64, _ last: Int64) -> [UInt8] {
    let size = Int64(bytes.count)
    if first < 0, last < 0, first > last { return [] }
    let start = max(0, first < 0 ? max(first, -size) + size : first)
    let end = min(size - 1, max(0, last < 0 ? max(last, -size - 1) + size : last))
    return size == 0 || start > end ? [] : Array(bytes[Int(start)...Int(end)])
  }

  private static func extend(_ bytes: inout [UInt8], to count: Int) {
    if bytes.count < count { bytes += [UInt8](repeating: 0, count: count - bytes.count) }
  }

  /// nil: not the place of a bit.
  private static func place(_ word: [UInt8]) -> Int? {
    SimulatedRedisNumber.integer(word).flatMap { $0 >= 0 && $0 < bytesMaximum * 8 ? Int($0) : nil }
  }

  private static func bit(_ word: [UInt8]) -> UInt8? {
    word == [UInt8(ascii: "0")] ? 0 : word == [UInt8(ascii: "1")] ? 1 : nil
  }

  private static func bit(of bytes: [UInt8], _ place: Int) -> Int64 {
    guard place / 8 < bytes.count else { return 0 }
    return bytes[place / 8] & mask(place) == 0 ? 0 : 1
  }

  private static func mask(_ place: Int) -> UInt8 { 128 >> UInt8(place % 8) }

  /// Returns the bit before.
  private static func set(_ bit: UInt8, in bytes: inout [UInt8], _ place: Int) -> Int64 {
    extend(&bytes, to: place / 8 + 1)
    let before = Self.bit(of: bytes, place)
    if bit == 1 { bytes[place / 8] |= mask(place) } else { bytes[place / 8] &= ~mask(place) }
    return before
  }
}
