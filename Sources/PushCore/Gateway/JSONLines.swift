/// The lines of a JSON Lines body, without blank lines.
package struct JSONLines: Sequence, IteratorProtocol {
  private let bytes: [UInt8]
  private var position = 0

  package init(_ bytes: [UInt8]) {
    self.bytes = bytes
  }

  package mutating func next() -> [UInt8]? {
    while position < bytes.count {
      let end = bytes[position...].firstIndex(of: UInt8(ascii: "\n")) ?? bytes.count
      let line = bytes[position..<end]
      position = end + 1
      if line.contains(where: { $0 != ASCII.space && $0 != UInt8(ascii: "\r") && $0 != UInt8(ascii: "\t") }) {
        return Array(line)
      }
    }
    return nil
  }
}
