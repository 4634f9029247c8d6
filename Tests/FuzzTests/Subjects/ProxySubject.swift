@testable import PushIO

/// What an HTTP proxy may answer to CONNECT.
final class ProxySubject: FuzzSubject {
  init() {}

  func run(_ bytes: [UInt8]) throws(FuzzFinding) {
    var whole = ProxyTunnel(
      proxy: Proxy(endpoint: Endpoint(host: "proxy", port: 3128)),
      target: Endpoint(host: "api.push.apple.com", port: 443))
    var pieces = whole
    let progress = whole.receive(bytes.span)
    var last = ProxyTunnel.Progress.more
    var index = 0
    while last == .more, index < bytes.count {
      last = pieces.receive(bytes.span.extracting(index..<index + 1))
      index += 1
    }
    if progress == .open { try holds(last == .open && index == bytes.count, "open, however it arrives") }
    if progress == .more { try holds(last == .more && index == bytes.count, "more, however it arrives") }
    if case .failed(let text) = progress { try holds(!text.isEmpty, "a failure says why") }
    if progress == .more {
      guard case .failed(let text) = whole.ended(), !text.isEmpty else {
        throw FuzzFinding("an early end is a failure")
      }
    }
  }
}
