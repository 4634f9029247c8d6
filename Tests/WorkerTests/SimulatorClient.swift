import APNsSimulator
import PushCore
import PushIO

/// A client with one connection for the simulator's tests: sends requests unchecked, and records the answers.
final class SimulatorClient {
  struct Answer: Hashable {
    var status: Int
    var body: String
    var identifier: String
    var uniqueIdentifier: String
    var channel: String
  }

  struct GoAway: Hashable {
    var last: Int
    var code: HTTP2ErrorCode
    var debug: String
  }

  let loop: EventLoop
  let http: HTTP2ClientConnection
  private(set) var answers: [Int: Answer] = [:]
  /// The `date` of each answer, Unix seconds; nil: it had none.
  private(set) var dates: [Int64?] = []
  private(set) var notProcessed: Set<Int> = []
  private(set) var lost: [Int: HTTP2ErrorCode] = [:]
  private(set) var goAways: [GoAway] = []
  private(set) var limits: [Int] = []
  private(set) var pongs = 0
  private(set) var isOpen = false
  private(set) var isClosed = false
  private var sent = 0
  private var headers = HTTP2HeaderList()

  init(_ port: UInt16, tls: TLSContext? = nil) throws {
    loop = try EventLoop()
    var options = ConnectOptions()
    options.serverName = "localhost"
    http = HTTP2ClientConnection.connect(
      loop: loop, to: Endpoint(host: "127.0.0.1", port: port), tls: tls, options: options)
  }

  /// Turns the loop until the condition holds; false: it did not in time.
  @discardableResult
  func run(milliseconds: Int64 = 5000, until condition: (SimulatorClient) -> Bool) -> Bool {
    var isOver = false
    let timer = loop.schedule(afterMilliseconds: milliseconds) { isOver = true }
    while !condition(self) && !isOver {
      loop.flush()
      loop.poll(maximumWaitMilliseconds: 100)
      takeEvents()
    }
    loop.cancel(timer)
    return condition(self)
  }

  /// Waits for the connection and the first SETTINGS.
  func open() -> Bool {
    run { $0.isClosed || !$0.limits.isEmpty } && !isClosed
  }

  /// Submits a request; its number, or nil where no stream is free.
  func submit(_ request: SimulatedRequest) -> Int? {
    headers.removeAll()
    headers.append(.method, request.method.utf8.span)
    headers.append(.scheme, "https")
    headers.append(.authority, "localhost")
    headers.append(.path, request.path.utf8.span)
    for field in request.fields { headers.append(name: field.name.utf8.span, value: field.value.utf8.span) }
    let ticket = Ticket(index: UInt32(sent), generation: 1)
    guard http.submit(headers, body: request.body, bodyRange: 0..<request.body.count, ticket: ticket) else {
      return nil
    }
    sent += 1
    return sent - 1
  }

  /// Sends one request and waits for its end; nil: no answer came.
  func ask(_ request: SimulatedRequest, milliseconds: Int64 = 5000) -> Answer? {
    guard isOpen || open(), run(until: { $0.http.availableStreams > 0 || $0.isClosed }), let number = submit(request)
    else { return nil }
    run(milliseconds: milliseconds) { $0.isSettled(number) }
    return answers[number]
  }

  func isSettled(_ number: Int) -> Bool {
    answers[number] != nil || notProcessed.contains(number) || lost[number] != nil || isClosed
  }

  private func takeEvents() {
    while let event = http.nextEvent() {
      switch event {
      case .opened: isOpen = true
      case .settingsChanged(let maximum): limits.append(maximum)
      case .goAway(let last, let code):
        goAways.append(GoAway(last: last, code: code, debug: http.withGoAwayReason { String(bytes: $0) }))
      case .response(let ticket, let status):
        dates.append(http.withResponseHeader(.date) { HTTPDate.unixSeconds($0) })
        answers[Int(ticket.index)] = Answer(
          status: status, body: http.withResponseBody { String(bytes: $0) },
          identifier: http.withResponseHeader(.apnsID) { String(bytes: $0) },
          uniqueIdentifier: http.withResponseHeader(.apnsUniqueID) { String(bytes: $0) },
          channel: http.withResponseHeader(.apnsChannelID) { String(bytes: $0) })
      case .notProcessed(let ticket): notProcessed.insert(Int(ticket.index))
      case .lost(let ticket, let code): lost[Int(ticket.index)] = code
      case .pingAcknowledged: pongs += 1
      case .closed: isClosed = true
      }
    }
  }
}

extension String {
  /// Text from received bytes.
  init(bytes: Span<UInt8>) {
    var copy: [UInt8] = []
    for index in 0..<bytes.count { copy.append(bytes[index]) }
    self = String(decoding: copy, as: UTF8.self)
  }
}
