package import PushCore

/// A message that the gateway publishes for a request.
package struct GatewayMessage: Sendable {
  package enum Kind: Sendable {
    case job(JobClass, id: String, scope: AppScope, TraceContext?)
    case registration
  }

  package let kind: Kind
  package let body: [UInt8]

  package init(_ kind: Kind, _ body: [UInt8]) {
    self.kind = kind
    self.body = body
  }
}
