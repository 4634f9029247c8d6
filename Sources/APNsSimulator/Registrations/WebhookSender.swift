import PushCore
import PushIO

/// Sends registrations to a webhook, a few at a time. Those that fail are sent again, a few times.
final class WebhookSender: RegistrationSender {
  private let loop: EventLoop
  private let address: WebhookAddress
  private var waiting = RingBuffer<(body: [UInt8], attempt: Int)>(growingFrom: 16)
  private var calls: [ObjectIdentifier: WebhookCall] = [:]
  /// Those that ended in this turn: a call is not freed from inside itself.
  private var finished: [WebhookCall] = []
  /// Failed, and waiting for their next try.
  private var pausing = 0
  private var isClosed = false
  private var counts = RegistrationProgress()

  private static let callsMaximum = 16
  private static let attemptsMaximum = 5
  private static let pauseMilliseconds: Int64 = 500

  init(loop: EventLoop, address: WebhookAddress) {
    self.loop = loop
    self.address = address
  }

  var progress: RegistrationProgress {
    var progress = counts
    progress.waiting = waiting.count + calls.count + pausing
    return progress
  }

  func send(_ registration: [UInt8]) {
    guard progress.waiting < RegistrationProgress.waitingMaximum else {
      fail("too many registrations wait")
      return
    }
    waiting.append((registration, 1))
  }

  func turn() {
    finished.removeAll()
    while !isClosed, calls.count < WebhookSender.callsMaximum, let (body, attempt) = waiting.popFirst() {
      let call = WebhookCall(loop: loop, to: address, body: body, attempt: attempt) { [weak self] call, outcome in
        self?.ended(call, outcome)
      }
      calls[ObjectIdentifier(call)] = call
    }
  }

  func close() {
    isClosed = true
    for call in calls.values { call.abort() }
    calls.removeAll()
  }

  private func ended(_ call: WebhookCall, _ outcome: WebhookCall.Outcome) {
    calls[ObjectIdentifier(call)] = nil
    finished.append(call)
    switch outcome {
    case .taken: counts.delivered += 1
    case .refused(let text): fail(text)
    case .failed(let text):
      guard call.attempt < WebhookSender.attemptsMaximum else {
        fail(text)
        return
      }
      counts.repeated += 1
      counts.lastFailure = text
      pausing += 1
      loop.schedule(afterMilliseconds: WebhookSender.pauseMilliseconds * Int64(call.attempt)) { [weak self] in
        guard let self else { return }
        self.pausing -= 1
        self.waiting.append((call.body, call.attempt + 1))
      }
    }
  }

  private func fail(_ text: String) {
    counts.failed += 1
    counts.lastFailure = text
  }
}
