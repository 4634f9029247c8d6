/// The exchange with an HTTP proxy before the tunnel is open, without a socket: what to send, and what the answer means.
struct ProxyTunnel {
  enum Progress: Equatable {
    /// The answer is incomplete.
    case more
    /// From now on bytes pass to the target and back.
    case open
    /// The proxy refused, or is not a proxy: what it answered and what to do.
    case failed(String)
  }

  /// An answer's head is at most this long, with the interim answers before it, bytes.
  static let headMaximum = 8 * 1024

  /// What is sent first.
  let request: [UInt8]
  private let proxy: Proxy
  private let target: Endpoint
  private var head: [UInt8] = []
  private var receivedCount = 0

  init(proxy: Proxy, target: Endpoint) {
    self.proxy = proxy
    self.target = target
    var text = "CONNECT \(target) HTTP/1.1\r\nHost: \(target)\r\n"
    if let authorization = proxy.authorization { text += "Proxy-Authorization: \(authorization)\r\n" }
    request = Array((text + "\r\n").utf8)
  }

  /// Consumes received bytes.
  mutating func receive(_ bytes: Span<UInt8>) -> Progress {
    for index in bytes.indices {
      head.append(bytes[index])
      receivedCount += 1
      if receivedCount > ProxyTunnel.headMaximum { return failed("answered with an endless head: not an HTTP proxy") }
      guard head.suffix(4).elementsEqual("\r\n\r\n".utf8) else { continue }
      let progress = judge()
      if progress == .more {
        head.removeAll(keepingCapacity: true)
        continue
      }
      // The client starts TLS, so nothing may come from behind the proxy yet.
      if progress == .open, index + 1 < bytes.count { return failed("sent bytes of its own into the tunnel") }
      return progress
    }
    return .more
  }

  /// The proxy closed the connection.
  func ended() -> Progress {
    failed(head.isEmpty ? "closed the connection without an answer" : "closed the connection within its answer")
  }

  /// What a whole head says; `.more`: an interim answer, and the final one follows (RFC 9110, 15.2).
  private func judge() -> Progress {
    let line = String(decoding: head.prefix { $0 != 13 && $0 != 10 }, as: UTF8.self)
    let words = line.split(separator: " ", maxSplits: 2)
    guard words.count >= 2, words[0].hasPrefix("HTTP/1."), let status = Int(words[1]) else {
      return failed("is not an HTTP proxy: it answered \"\(line.prefix(80))\"")
    }
    let reason = words.dropFirst().joined(separator: " ").prefix(120)
    switch status {
    case 100, 102..<200: return .more
    case 200..<300: return .open
    case 407: return failed("refused the login (\(reason)): check user and password of apns.proxy")
    case 403, 405: return failed("does not allow CONNECT to \(target) (\(reason)): allow its host and port there")
    case 502...504: return failed("cannot reach \(target) (\(reason))")
    default: return failed("refused CONNECT to \(target) (\(reason))")
    }
  }

  private func failed(_ what: String) -> Progress {
    .failed("the proxy \(proxy.endpoint) \(what)")
  }
}
