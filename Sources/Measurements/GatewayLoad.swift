import PushCore
import PushIO

/// Sends requests to a gateway over kept-alive connections and times the answers. Any other answer than the expected one is an error.
final class GatewayLoad {
  /// When requests are due.
  enum Pace {
    /// As soon as a connection is idle.
    case asFastAsPossible
    /// So many a second, whether or not the gateway keeps up: times count from when each was due.
    case perSecond(Double)
  }

  private let loop: EventLoop
  private let port: UInt16
  private var connections: [LoadConnection] = []
  private var idle: [LoadConnection] = []
  private var times: [Double] = []

  private static let secondsMaximum: Int64 = 300
  /// The listener's queue is shorter than thousands of connections.
  private static let connectingMaximum = 200

  /// - Parameter count: connections, all of them open once it returns.
  init(port: UInt16, connections count: Int) throws {
    loop = try EventLoop()
    self.port = port
    try turn { [self] in
      while connections.count < count, connections.count - idle.count < GatewayLoad.connectingMaximum { connect() }
      return connections.count == count && idle.count == count
    }
  }

  deinit {
    for connection in connections { connection.close() }
  }

  private func connect() {
    let connection = LoadConnection(loop: loop, port: port)
    connection.becameIdle = { [unowned self] in
      if $0.begun < .distantFuture {
        times.append(Double(loop.now.monotonic.nanoseconds - $0.begun.nanoseconds) / 1e6)
      }
      idle.append($0)
    }
    connections.append(connection)
  }

  /// - Parameter sample: is called now and then.
  /// - Returns: the times from each request to its answer, milliseconds, in ascending order.
  func run(_ requests: [LoadRequest], _ pace: Pace, sample: () -> Void = {}) throws -> [Double] {
    times = []
    times.reserveCapacity(requests.count)
    var next = 0
    let start = loop.now.monotonic
    try turn { [self] in
      while next < requests.count {
        let due: Instant
        switch pace {
        case .asFastAsPossible: due = loop.now.monotonic
        case .perSecond(let rate):
          due = Instant(nanoseconds: start.nanoseconds + Int64(Double(next) / rate * 1e9))
        }
        guard due <= loop.now.monotonic, let connection = idle.popLast() else { break }
        connection.begun = due
        connection.send(requests[next])
        next += 1
      }
      sample()
      return times.count == requests.count
    }
    return times.sorted()
  }

  /// Sends a request on each connection.
  func runOnEach(_ request: LoadRequest) throws {
    _ = try run(connections.map { _ in request }, .asFastAsPossible)
  }

  /// Fails where a connection has ended.
  func check() throws {
    for _ in 0..<2 {
      loop.poll(maximumWaitMilliseconds: 1)
      loop.flush()
    }
    try throwFailure()
  }

  private func throwFailure() throws {
    for connection in connections {
      if let failure = connection.failure { throw SimulatorProcess.Failure(description: failure) }
    }
  }

  /// - Parameter work: whether all is done.
  private func turn(_ work: () -> Bool) throws {
    let deadline = loop.now.monotonic.adding(milliseconds: GatewayLoad.secondsMaximum * 1000)
    var turns = 0
    while true {
      loop.poll(maximumWaitMilliseconds: 1)
      let isDone = work()
      loop.flush()
      if isDone { return }
      turns += 1
      // Not at each turn: there may be thousands of connections.
      if turns % 100 == 0 { try throwFailure() }
      guard loop.now.monotonic < deadline else {
        throw SimulatorProcess.Failure(description: "no answers for \(GatewayLoad.secondsMaximum) s")
      }
    }
  }
}
