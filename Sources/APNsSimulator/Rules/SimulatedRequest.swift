/// One request as it arrived, before anything was checked: what the rules look at.
package struct SimulatedRequest: Sendable {
  package struct Field: Hashable, Sendable {
    /// Lower-case, as HTTP/2 demands.
    package var name: String
    package var value: String

    package init(name: String, value: String) {
      self.name = name
      self.value = value
    }
  }

  package var method: String
  package var path: String
  /// Every field but the pseudo-headers, in order, repeated ones included.
  package var fields: [Field]
  package var body: [UInt8]
  /// Bytes of the body that arrived, also where `body` was cut.
  package var bodyCount: Int

  package init(method: String, path: String, fields: [Field] = [], body: [UInt8] = [], bodyCount: Int? = nil) {
    self.method = method
    self.path = path
    self.fields = fields
    self.body = body
    self.bodyCount = bodyCount ?? body.count
  }

  /// The first field of this name; nil where there is none.
  package subscript(name: String) -> String? {
    fields.first { $0.name == name }?.value
  }

  /// The headers that APNs reads: one of them twice is `DuplicateHeaders`.
  package static let knownNames: Set<String> = [
    "authorization", "apns-id", "apns-push-type", "apns-expiration", "apns-priority", "apns-topic", "apns-collapse-id",
    "apns-channel-id", "apns-request-id",
  ]

  /// Whether a header that APNs reads stands there more than once.
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
