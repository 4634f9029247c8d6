/// With which the gateway speaks TLS. PEM.
package struct GatewayTLSFiles: Hashable, Sendable {
  package let certificate: String
  package let privateKey: String
  /// nil: clients show no certificate.
  package let clientCA: String?

  package var all: [String] { [certificate, privateKey] + (clientCA.map { [$0] } ?? []) }
}
