/// Why the bytes of a record cannot be decoded.
package enum DeviceRecordError: Error, Hashable, Sendable {
  /// Words that must be looked up first.
  case unknownWords([UInt32])
  /// Written by a newer version of Herald, or by another program.
  case unknownVersion(UInt8)
  case broken

  package var text: String {
    switch self {
    case .unknownWords(let numbers):
      "its words \(numbers.map(String.init).joined(separator: ", ")) are not in the table"
    case .unknownVersion(let version):
      "it has the version \(version), and this Herald reads up to \(DeviceRecord.version)"
    case .broken: "it is damaged: does something else use this key?"
    }
  }
}
