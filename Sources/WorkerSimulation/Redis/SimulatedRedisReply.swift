/// A reply to a command, independent of the protocol version.
package indirect enum SimulatedRedisReply: Hashable, Sendable {
  case status([UInt8])
  /// Without the leading `-`.
  case error([UInt8])
  case integer(Int64)
  case bulk([UInt8])
  case null
  /// A null array: different from a null only in RESP2.
  case nullArray
  case array([SimulatedRedisReply])
  /// Alternating keys and values: a map in RESP3, a flat array in RESP2.
  case map([SimulatedRedisReply])
  /// A set in RESP3, an array in RESP2.
  case members([SimulatedRedisReply])
  /// A double in RESP3, its text in RESP2.
  case double(Double)
  /// Text for people: a verbatim string in RESP3.
  case verbatim([UInt8])
  /// Members and scores: pairs in RESP3, a flat array in RESP2.
  case scored([SimulatedRedisReply])

  static let ok = SimulatedRedisReply.status(Array("OK".utf8))

  static func error(_ text: String) -> SimulatedRedisReply { .error(Array(text.utf8)) }

  /// Appends the encoded reply.
  func write(to output: inout [UInt8], version: Int) {
    switch self {
    case .status(let text): Self.writeLine(UInt8(ascii: "+"), text, to: &output)
    case .error(let text): Self.writeLine(UInt8(ascii: "-"), text, to: &output)
    case .integer(let number): Self.writeHead(UInt8(ascii: ":"), number, to: &output)
    case .bulk(let bytes): Self.writeBulk(bytes, to: &output)
    case .null:
      output.append(contentsOf: version == 3 ? [95, 13, 10] : [36, 45, 49, 13, 10])
    case .nullArray:
      output.append(contentsOf: version == 3 ? [95, 13, 10] : [42, 45, 49, 13, 10])
    case .array(let values):
      Self.writeHead(UInt8(ascii: "*"), Int64(values.count), to: &output)
      for value in values { value.write(to: &output, version: version) }
    case .members(let values):
      Self.writeHead(version == 3 ? UInt8(ascii: "~") : UInt8(ascii: "*"), Int64(values.count), to: &output)
      for value in values { value.write(to: &output, version: version) }
    case .map(let values):
      if version == 3 {
        Self.writeHead(UInt8(ascii: "%"), Int64(values.count / 2), to: &output)
      } else {
        Self.writeHead(UInt8(ascii: "*"), Int64(values.count), to: &output)
      }
      for value in values { value.write(to: &output, version: version) }
    case .double(let number):
      let text = SimulatedRedisNumber.text(of: number)
      if version == 3 {
        Self.writeLine(UInt8(ascii: ","), text, to: &output)
      } else {
        Self.writeBulk(text, to: &output)
      }
    case .verbatim(let text):
      if version == 3 {
        Self.writeHead(UInt8(ascii: "="), Int64(text.count + 4), to: &output)
        output.append(contentsOf: [116, 120, 116, 58])
        output.append(contentsOf: text)
        output.append(contentsOf: [13, 10])
      } else {
        Self.writeBulk(text, to: &output)
      }
    case .scored(let values):
      Self.writeHead(UInt8(ascii: "*"), Int64(version == 3 ? values.count / 2 : values.count), to: &output)
      for index in values.indices {
        if version == 3, index % 2 == 0 { output.append(contentsOf: [42, 50, 13, 10]) }
        values[index].write(to: &output, version: version)
      }
    }
  }

  private static func writeBulk(_ bytes: [UInt8], to output: inout [UInt8]) {
    writeHead(UInt8(ascii: "$"), Int64(bytes.count), to: &output)
    output.append(contentsOf: bytes)
    output.append(13)
    output.append(10)
  }

  private static func writeLine(_ marker: UInt8, _ text: [UInt8], to output: inout [UInt8]) {
    output.append(marker)
    output.append(contentsOf: text)
    output.append(13)
    output.append(10)
  }

  private static func writeHead(_ marker: UInt8, _ number: Int64, to output: inout [UInt8]) {
    output.append(marker)
    SimulatedRedisNumber.write(number, to: &output)
    output.append(13)
    output.append(10)
  }
}
