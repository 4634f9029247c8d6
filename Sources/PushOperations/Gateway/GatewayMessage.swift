package import PushCore

/// A message that the gateway publishes for a request.
package struct GatewayMessage: Sendable {
  package enum Kind: Sendable {
    case job(JobClass, id: String, scope: AppScope, TraceContext?)
    case registration
  }

  package let kind: Kind
  package private(set) var body: [UInt8]
  /// Of a job whose order matters: its producer has not numbered it.
  package let needsSequence: Bool

  package init(_ kind: Kind, _ body: [UInt8], needsSequence: Bool = false) {
    self.kind = kind
    self.body = body
    self.needsSequence = needsSequence
  }

  /// For its number, which its id keeps; nil: it gets none.
  var numberedName: String? {
    guard needsSequence, case .job(_, let id, let scope, _) = kind else { return nil }
    return "\(scope.app):\(scope.environment.name):\(id)"
  }

  mutating func setSequence(_ number: Int64) {
    body = JobSequence.adding(number, to: body)
  }
}
