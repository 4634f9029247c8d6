/// Parses a client's bytes into commands: arrays of bulk strings, or inline commands. The split of the bytes does not matter.
struct SimulatedRedisParser {
  enum Result {
    case command([[UInt8]])
    /// More bytes are needed.
    case incomplete
    /// A protocol violation; Redis sends this text and closes the connection.
    case failure([UInt8])
  }

  private var bytes: [UInt8] = []
  private var position = 0
  /// Arguments of the current command so far, and their total.
  private var arguments: [[UInt8]] = []
  private var argumentCount = 0
  /// Length of the argument whose header was read.
  private var length: Int?
  /// No line ends before this position.
  private var searched = 0

  private static let lineMaximum = 64 << 10
  private static let argumentsMaximum = 1 << 20
  private static let lengthMaximum = 512 << 20

  mutating func feed(_ more: [UInt8]) {
    if position == bytes.count {
      bytes = more
      position = 0
      searched = 0
    } else {
      bytes += more
    }
  }

  mutating func next() -> Result {
    while true {
      if argumentCount == 0 {
        guard let line = takeLine() else {
          return bytes.count - position > Self.lineMaximum
            ? .failure(Array("ERR Protocol error: too big inline request".utf8)) : .incomplete
        }
        guard line.first == UInt8(ascii: "*") else {
          let words = line.split(separator: UInt8(ascii: " ")).map(Array.init)
          if words.isEmpty { continue }
          return .command(words)
        }
        guard let count = SimulatedRedisNumber.integer(Array(line.dropFirst())), count <= Self.argumentsMaximum else {
          return .failure(Array("ERR Protocol error: invalid multibulk length".utf8))
        }
        if count <= 0 { continue }
        argumentCount = Int(count)
        arguments.reserveCapacity(min(argumentCount, 256))
      }
      while arguments.count < argumentCount {
        if length == nil {
          guard let line = takeLine() else { return .incomplete }
          guard line.first == UInt8(ascii: "$") else {
            return .failure(Array("ERR Protocol error: expected '$', got '".utf8) + [line.first ?? 13, 39])
          }
          guard let count = SimulatedRedisNumber.integer(Array(line.dropFirst())), count >= 0,
            count <= Self.lengthMaximum
          else { return .failure(Array("ERR Protocol error: invalid bulk length".utf8)) }
          length = Int(count)
        }
        guard let length, bytes.count - position >= length + 2 else { return .incomplete }
        arguments.append(Array(bytes[position..<position + length]))
        position += length + 2
        searched = position
        self.length = nil
      }
      let command = arguments
      arguments = []
      argumentCount = 0
      return .command(command)
    }
  }

  /// The next line, without its end.
  private mutating func takeLine() -> ArraySlice<UInt8>? {
    if searched < position { searched = position }
    while searched < bytes.count, bytes[searched] != 10 { searched += 1 }
    guard searched < bytes.count else { return nil }
    let end = searched > position && bytes[searched - 1] == 13 ? searched - 1 : searched
    let line = bytes[position..<end]
    position = searched + 1
    searched = position
    return line
  }
}
