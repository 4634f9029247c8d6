/// How a response is put into frames: what a strange but legal server may do.
package struct HTTP2ResponseOptions: Sendable {
  /// A DATA frame holds at most this many bytes of the body.
  package var dataFrameBytes = Int.max
  /// A response of this status (1xx) goes before the answer.
  package var informationalStatus: Int?
  /// The stream is not ended: the rest never comes, or `reset` ends it.
  package var leavesOpen = false
  /// A header that follows the body.
  package var trailer: (name: [UInt8], value: [UInt8])?

  package init() {}

  var isPlain: Bool { informationalStatus == nil && !leavesOpen && trailer == nil }
}
