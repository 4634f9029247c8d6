/// A producer's trace context (W3C Trace Context), which is passed on with its job.
package struct TraceContext: Hashable, Sendable {
  package let traceparent: String
  /// Empty: none.
  package let tracestate: String

  private static let parentCount = 55
  private static let stateBytesMaximum = 512

  /// nil: absent, or malformed: the specification says to ignore a malformed one.
  package init?(traceparent: String?, tracestate: String?) {
    guard let traceparent, TraceContext.isParent(Array(traceparent.utf8)) else { return nil }
    self.traceparent = traceparent
    let state = tracestate ?? ""
    let isGood = state.utf8.count <= TraceContext.stateBytesMaximum && state.utf8.allSatisfy { 0x20...0x7E ~= $0 }
    self.tracestate = isGood ? state : ""
  }

  /// `00-<32 hex digits>-<16>-<2>`, lower case, neither id all zeros.
  private static func isParent(_ bytes: [UInt8]) -> Bool {
    guard bytes.count == parentCount, bytes[0] == ASCII.zero, bytes[1] == ASCII.zero else { return false }
    for (index, byte) in bytes.enumerated() {
      let isDash = [2, 35, 52].contains(index)
      guard isDash ? byte == ASCII.minus : Hex.value(byte) != nil && !(0x41...0x46 ~= byte) else { return false }
    }
    return bytes[3..<35].contains { $0 != ASCII.zero } && bytes[36..<52].contains { $0 != ASCII.zero }
  }
}
