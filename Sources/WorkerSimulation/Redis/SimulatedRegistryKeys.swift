/// The documented names of the registry's keys: all begin with the first key of a call.
struct SimulatedRegistryKeys {
  private let tag: [UInt8]

  /// The bucket's value for a set whose members are in chunks.
  static let large = [UInt8(ascii: "*")]
  static let chunkOrdinals: Int64 = 65_280

  init(_ call: SimulatedRedisScriptCall) throws(SimulatedRedisScriptFailure) { tag = try call.key(1) }

  func named(_ name: [UInt8]) -> [UInt8] { tag + name }
  var free: [UInt8] { tag + Array("free".utf8) }
  var epoch: [UInt8] { tag + Array("epoch".utf8) }
  var next: [UInt8] { tag + Array("next".utf8) }
  var words: [UInt8] { tag + Array("word".utf8) }
  var osVersions: [UInt8] { tag + Array("os".utf8) }
  func group(_ number: UInt32) -> [UInt8] { group(SimulatedRedisNumber.text(Int64(number))) }
  func group(_ digits: [UInt8]) -> [UInt8] { tag + Array("d:".utf8) + digits }
  func bucket(_ digits: [UInt8]) -> [UInt8] { tag + Array("p:".utf8) + digits }
  func chunk(_ word: [UInt8], _ number: [UInt8]) -> [UInt8] { tag + Array("c:".utf8) + word + Array(":".utf8) + number }

  /// The chunk of the next ordinal.
  func lastChunk(_ call: SimulatedRedisScriptCall, line: Int) throws(SimulatedRedisScriptFailure) -> Int64 {
    guard let text = try call.text(.get, next, line: line) else { return 0 }
    return Int64(try SimulatedRedisScriptCall.number(text)) / SimulatedRegistryKeys.chunkOrdinals
  }

  /// Four bytes, little-endian.
  static func ordinal(_ bytes: [UInt8], _ at: Int) -> UInt32 {
    (0..<4).reduce(0) { $0 | UInt32(bytes[at + $1]) << UInt32($1 * 8) }
  }
}
