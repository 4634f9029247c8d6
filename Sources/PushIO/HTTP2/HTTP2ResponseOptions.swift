/// How a response is framed: what an unusual but legal server may do.
package struct HTTP2ResponseOptions: Sendable {
  /// Maximum number of the body's bytes in a DATA frame.
  package var dataFrameBytes = Int.max
  /// A response with this status (1xx) is sent before the answer.
  package var informationalStatus: Int?
  /// The stream is not ended: the rest is never sent, or `reset` ends it.
  package var leavesOpen = false
  /// A header that follows the body.
  package var trailer: (name: [UInt8], value: [UInt8])?

  package init() {}

  var isPlain: Bool { informationalStatus == nil && !leavesOpen && trailer == nil }
}
