import PushIO

/// One POST to a webhook, on a connection of its own.
final class WebhookCall: TransportDelegate {
  enum Outcome {
    case taken
    /// The webhook refuses it; another try would not help.
    case refused(String)
    /// Another try may help.
    case failed(String)
  }

  let body: [UInt8]
  let attempt: Int
  private let request: [UInt8]
  private let loop: EventLoop
  private let ended: (WebhookCall, Outcome) -> Void
  private var transport: Transport?
  private var deadline: TimerToken?
  private var isEnded = false

  private static let timeoutMilliseconds: Int64 = 10_000

  /// Starts. `ended` is called once, from inside `poll`.
  init(
    loop: EventLoop, to address: WebhookAddress, body: [UInt8], attempt: Int,
    ended: @escaping (WebhookCall, Outcome) -> Void
  ) {
    self.body = body
    self.attempt = attempt
    self.loop = loop
    self.ended = ended
    request = address.request(body)
    transport = Transport.connect(
      loop: loop, to: Endpoint(host: address.host, port: address.port), tls: nil, delegate: self)
    deadline = loop.schedule(afterMilliseconds: WebhookCall.timeoutMilliseconds) { [weak self] in
      self?.end(.failed("the webhook did not answer in time"))
    }
  }

  deinit {
    abort()
  }

  func abort() {
    isEnded = true
    if let deadline { loop.cancel(deadline) }
    transport?.abort()
  }

  func transportDidOpen(_ transport: Transport) {
    let request = request
    transport.outbound.append(request.span)
    transport.setNeedsFlush()
  }

  func transportDidReceive(_ transport: Transport) {
    switch transport.inbound.withBytes({ WebhookAnswer.read($0) }) {
    case .incomplete: break
    case .unreadable: end(.refused("the webhook's answer is not HTTP/1"))
    case .status(let status):
      let text = "the webhook answered \(status)"
      switch status {
      case 200..<300: end(.taken)
      case 408, 429, 500...: end(.failed(text))
      default: end(.refused(text))
      }
    }
  }

  func transportDidClose(_ transport: Transport, error: TransportError?) {
    end(.failed("the webhook: \(error?.text ?? "closed without an answer")"))
  }

  private func end(_ outcome: Outcome) {
    if isEnded { return }
    abort()
    ended(self, outcome)
  }
}
