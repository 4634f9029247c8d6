import PushCore
import PushIO

/// One client connection: takes the requests from its HTTP/2 side, applies faults and rules, and answers.
final class SimulatedConnection {
  private let http: HTTP2ServerConnection
  private let endpoint: SimulatedService.Endpoint
  private unowned let loop: EventLoop
  private let options: SimulatorOptions
  private(set) var identity = ConnectionIdentity()
  private(set) var isClosed = false
  /// Its number in the ledger; 0 before the connection opened.
  private var number = 0
  private var requests = 0
  private var wentAway = false
  /// As last written to the ledger.
  private var counters = HTTP2ServerCounters()
  private var hasRaisedLimit: Bool
  /// In fast mode: the time in the last dated answer.
  private var datedAt: Int64?

  init(http: HTTP2ServerConnection, endpoint: SimulatedService.Endpoint, loop: EventLoop, options: SimulatorOptions) {
    self.http = http
    self.endpoint = endpoint
    self.loop = loop
    self.options = options
    hasRaisedLimit = options.isFast || !options.startsWithOneStream
  }

  func turn(_ state: inout SimulatorState, _ responder: Responder, now: Now) {
    let streamsInFlight = http.streamsInFlight
    var hasNews = false
    while let event = http.nextEvent() {
      hasNews = true
      switch event {
      case .opened:
        number = state.ledger.open(peer: http.peerDescription, at: now.unixMilliseconds)
        opened()
      case .headers, .reset:
        break
      case .request(let stream):
        requests += 1
        if options.isFast, endpoint == .send, state.plan.active.isEmpty,
          responder.acceptFast(
            stream, on: http, &state, countsIdentifiers: options.countsIdentifiers,
            isDated: datedAt != responder.unixSeconds)
        {
          datedAt = responder.unixSeconds
          break
        }
        handle(stream, &state, responder, now: now)
      case .closed(let error):
        isClosed = true
        state.ledger.update(connection: number) { record in
          record.closedAt = now.unixMilliseconds
          record.error = error.map { "\($0)" }
        }
      }
    }
    if hasNews || http.counters != counters { keepBook(&state, streamsInFlight: streamsInFlight) }
  }

  private func opened() {
    if let facts = http.peerCertificate {
      identity = ConnectionIdentity(certificate: ClientCertificate(facts))
      raiseStreamLimit()
    }
  }

  private func keepBook(_ state: inout SimulatorState, streamsInFlight: Int) {
    counters = http.counters
    state.ledger.update(connection: number) { record in
      record.requests = requests
      record.streamsInFlightMaximum = max(record.streamsInFlightMaximum, streamsInFlight)
      record.pings = counters.pingsReceived
      record.cancels = counters.resetsReceived
      record.streamsOverLimit = counters.streamsOverLimit
      record.tokenChanges = identity.tokenChanges
      record.goAwaysReceived = counters.goAwaysReceived
      record.invalidFrames = counters.invalidFrames
    }
  }

  // MARK: - One request

  private func handle(_ stream: HTTP2StreamID, _ state: inout SimulatorState, _ responder: Responder, now: Now) {
    let request = SimulatedRequest(stream, of: http)
    let subject = subject(of: request)
    let effect = state.plan.effect(on: subject) ?? FaultEffect()
    var entry = LedgerEntry(
      number: 0, apnsID: request["apns-id"] ?? "", target: subject.token, topic: subject.topic,
      pushType: subject.pushType, connection: number, stream: stream, receivedAt: now.unixMilliseconds, status: 0,
      reason: nil, ending: .answered)
    if subject.token.isEmpty { entry.target = request["apns-channel-id"] ?? "" }

    if let limits = effect.streamLimits { changeStreamLimits(limits) }
    if let goAway = effect.goAway, !wentAway, !self.goAway(goAway, at: stream) {
      entry.ending = .unprocessed
      state.ledger.record(entry, isAccepted: false, payload: request.body)
      return
    }
    if let ending = effect.ending, !effect.isProcessed {
      end(stream, ending, &entry)
      state.ledger.record(entry, isAccepted: false, payload: request.body)
      return
    }

    // A request that a fault refuses changes nothing.
    let isRefused = endpoint != .send && effect.answer.map { $0.status >= 300 } == true
    let channels = isRefused ? state.service.channels : nil
    var answer =
      options.isFast
      ? state.service.fastAnswer(request, at: endpoint)
      : state.service.answer(request, at: endpoint, identity: &identity, now: state.time(now))
    if identity.isValidated { raiseStreamLimit() }
    if let id = answer.fields.first?.value { entry.apnsID = id }
    if let ending = effect.ending {
      if answer.isSuccess { deliver(request, subject, effect, &state, now: now) }
      end(stream, ending, &entry)
      entry.status = answer.status
      state.ledger.record(entry, isAccepted: answer.isSuccess && endpoint == .send, payload: request.body)
      return
    }
    if let fault = effect.answer, answer.isSuccess {
      if let channels {
        state.service.channels = channels
        // Then there is no channel id either: the request's own id is the first field.
        answer.fields = Array(answer.fields.prefix(1))
      }
      answer.status = fault.status
      answer.reason = fault.reason
      answer.body = []
      let hourAgo = now.unixMilliseconds &- 3_600_000
      answer.timestamp = fault.timestamp ?? (fault.status == 410 ? hourAgo : nil)
    }
    if answer.isSuccess { deliver(request, subject, effect, &state, now: now) }
    entry.status = answer.status
    entry.reason = answer.reason
    let delay = effect.latency.map { state.plan.milliseconds(of: $0) } ?? 0
    if delay > 0 {
      let bodyForm = effect.body
      loop.schedule(afterMilliseconds: delay) { [weak self] in
        guard let self else { return }
        responder.answer(stream, answer, bodyForm, on: self.http)
      }
    } else if !responder.answer(stream, answer, effect.body, on: http) {
      entry.ending = .gone
    }
    state.ledger.record(entry, isAccepted: answer.isSuccess && endpoint == .send, payload: request.body)
  }

  /// Hands an accepted push of a Live Activity to the simulated devices.
  private func deliver(
    _ request: SimulatedRequest, _ subject: FaultPlan.Subject, _ effect: FaultEffect, _ state: inout SimulatorState,
    now: Now
  ) {
    guard endpoint == .send, subject.pushType.lowercased() == "liveactivity" else { return }
    let app = SimulatedService.app(ofTopic: subject.topic)
    let time = state.time(now)
    if !subject.token.isEmpty {
      state.service.activities.receive(
        request.body, token: subject.token, app: app, fault: effect.activity, now: time)
    } else if let channel = request["apns-channel-id"] {
      state.service.activities.receive(request.body, channel: channel, app: app, fault: effect.activity, now: time)
    }
  }

  private func subject(of request: SimulatedRequest) -> FaultPlan.Subject {
    let start = "/3/device/"
    let token =
      endpoint == .send && request.path.hasPrefix(start) ? request.path.dropFirst(start.count).lowercased() : ""
    return FaultPlan.Subject(
      token: token, topic: request["apns-topic"] ?? broadcastApp(of: request),
      pushType: request["apns-push-type"] ?? "",
      identity: request["apns-id"] ?? (token.isEmpty ? request.path : token), earlierRequests: requests - 1,
      connection: number)
  }

  /// A broadcast has no topic: its path names the app.
  private func broadcastApp(of request: SimulatedRequest) -> String {
    let start = "/4/broadcasts/apps/"
    return endpoint == .send && request.path.hasPrefix(start) ? String(request.path.dropFirst(start.count)) : ""
  }

  private func end(_ stream: HTTP2StreamID, _ ending: FaultEffect.Ending, _ entry: inout LedgerEntry) {
    switch ending {
    case .reset(let code):
      entry.ending = .reset
      http.reset(stream, HTTP2ErrorCode(rawValue: code))
    case .drop:
      entry.ending = .dropped
      http.abort()
    case .silence:
      entry.ending = .silent
    }
  }

  // MARK: - The connection

  func abort() {
    http.abort()
  }

  func close() {
    http.close()
  }

  func apply(_ faults: ConnectionFaults) {
    http.withholdsWindowUpdates = faults.withholdsWindowUpdates
    http.acknowledgesPings = !faults.ignoresPings
  }

  /// Sends GOAWAY; `stream`: the affected request. Returns whether that request must still be answered.
  @discardableResult
  func goAway(_ goAway: FaultEffect.GoAway, at stream: HTTP2StreamID?) -> Bool {
    wentAway = true
    let current = stream ?? http.lastStreamID
    let last: HTTP2StreamID =
      switch goAway.last {
      case .this: current
      case .previous: max(0, current - 2)
      case .all: HTTP2StreamID.max
      case .number(let number): number
      }
    let debug = goAway.reason.map { SimulatedAnswer(status: 400, reason: $0).bytes } ?? []
    http.goAway(lastStreamID: last, code: HTTP2ErrorCode(rawValue: goAway.code), debug: debug)
    return current <= last
  }

  func changeStreamLimits(_ limits: FaultEffect.StreamLimits) {
    hasRaisedLimit = true
    for (index, value) in limits.values.enumerated() {
      let delay = Int64(index) &* limits.intervalMilliseconds
      if delay == 0 {
        http.changeMaximumStreams(value)
      } else {
        loop.schedule(afterMilliseconds: delay) { [weak self] in self?.http.changeMaximumStreams(value) }
      }
    }
  }

  private func raiseStreamLimit() {
    if hasRaisedLimit { return }
    hasRaisedLimit = true
    http.changeMaximumStreams(options.maximumStreams)
  }
}
