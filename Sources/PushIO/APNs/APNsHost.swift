/// One host of APNs: where to connect, and its `:authority`.
package struct APNsHost: Hashable, Sendable {
  package var endpoint: Endpoint
  /// `:authority` of requests.
  package var authority: String
  /// Without TLS: a simulator.
  package var isPlaintext: Bool

  /// A host with TLS, as configured.
  package init(host: String, port: UInt16) {
    isPlaintext = false
    endpoint = Endpoint(host: host, port: port)
    authority = port == 443 ? endpoint.description.replacingPort443() : endpoint.description
  }

  /// Parses `https://host:port` (or `http://` for a simulator); nil if it is something else. The default port is 443.
  package init?(url: String) {
    let scheme: String
    if url.hasPrefix("https://") {
      scheme = "https://"
    } else if url.hasPrefix("http://") {
      scheme = "http://"
    } else {
      return nil
    }
    var rest = url.dropFirst(scheme.count)
    if rest.hasSuffix("/") { rest = rest.dropLast() }
    guard !rest.isEmpty, !rest.contains(where: { "/?#@ ".contains($0) }) else { return nil }
    isPlaintext = scheme == "http://"
    var host = rest
    var port: UInt16 = isPlaintext ? 80 : 443
    // A colon inside brackets belongs to an IPv6 address.
    if let colon = rest.lastIndex(of: ":"), !rest[colon...].contains("]") {
      guard let number = UInt16(rest[rest.index(after: colon)...]), number > 0 else { return nil }
      host = rest[..<colon]
      port = number
    }
    if host.hasPrefix("[") {
      guard host.hasSuffix("]") else { return nil }
      host = host.dropFirst().dropLast()
    }
    guard !host.isEmpty else { return nil }
    endpoint = Endpoint(host: String(host), port: port)
    authority = port == 443 ? endpoint.description.replacingPort443() : endpoint.description
  }
}

extension String {
  fileprivate func replacingPort443() -> String {
    hasSuffix(":443") ? String(dropLast(4)) : self
  }
}
