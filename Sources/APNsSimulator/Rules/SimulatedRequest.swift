/// One unchecked request, as the rules see it.
package struct SimulatedRequest: Sendable {
  package struct Field: Hashable, Sendable {
    /// Lower-case, as HTTP/2 requires.
    package var name: String
    package var value: String

    package init(name: String, value: String) {
      self.name = name
      self.value = value
    }
  }

  package var method: String
  package var path: String
  /// Every field except pseudo-headers, in order, including repeated ones.
  package var fields: [Field]
  package var body: [UInt8]
  /// Received bytes of the body, even if `body` was truncated.
  package var bodyCount: Int

  package init(method: String, path: String, fields: [Field] = [], body: [UInt8] = [], bodyCount: Int? = nil) {
    self.method = method
    self.path = path
    self.fields = fields
    self.body = body
    self.bodyCount = bodyCount ?? body.count
  }

  /// The first field with this name; nil if there is none.
  package subscript(name: String) -> String? {
    fields.first { $0.name == name }?.value
  }

  /// The headers that APNs reads: a repeated one is `DuplicateHeaders`.
  package static let knownNames: Set<String> = [
    "authorization", "apns-id", "apns-push-type", "apns-expiration", "apns-priority", "apns-topic", "apns-collapse-id",
    "apns-channel-id", "apns-request-id",
  ]

  /// Whether a header that APNs reads is repeated.
  package var hasDuplicates: Bool {
    var seen: Set<String> = []
    for field in fields where SimulatedRequest.knownNames.contains(field.name) {
      if !seen.insert(field.name).inserted { return true }
    }
    return false
  }

  /// Splits the path at its slashes; a query counts as part of the last segment.
  package var pathSegments: [Substring] {
    path.split(separator: "/", omittingEmptySubsequences: false).dropFirst().map { $0 }
  }
}
