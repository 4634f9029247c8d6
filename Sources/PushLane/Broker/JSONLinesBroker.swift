package import Foundation
package import PushCore

/// A broker without servers: jobs come in as JSON Lines, outcomes go out as JSON Lines. Retries wait in memory.
///
/// For `herald send` and for embedding. An outcome is confirmed when it is written.
package struct JSONLinesBroker: Broker {
  /// Input is not read while this many jobs are in flight.
  private static let inFlightMaximum = 2000
  /// Input is not read while this many retries wait.
  private static let retriesMaximum = 10_000

  private struct Retry {
    var dueAt: Int64
    var body: [UInt8]
    var state: RetryState
    var metadata: MessageMetadata
  }

  private enum Pending {
    case line(LineReader.Line)
    case retry(Retry)
  }

  private let input: LineReader
  private let output: FileHandle
  private let unixMilliseconds: () -> Int64
  private var lines: [LineReader.Line] = []
  private var nextLine = 0
  private var isAtEnd = false
  private var isStopped = false
  private var isStarted = false
  private var reportedPublishing = false
  private var current: Pending?
  private var retries: [Retry] = []
  private var tag: UInt64 = 0
  private var acknowledgedTag: UInt64 = 0
  /// Tags above it that were settled individually.
  private var settledSingly: Set<UInt64> = []
  private var sequence: UInt64 = 0
  private var confirmedSequence: UInt64 = 0
  private var unwritten = Data()
  /// Why output could not be written.
  package private(set) var outputError: String?

  package init(input: LineReader, output: FileHandle, unixMilliseconds: @escaping () -> Int64) {
    self.input = input
    self.output = output
    self.unixMilliseconds = unixMilliseconds
  }

  package var canPublish: Bool { outputError == nil }

  package mutating func nextEvent(takesDeliveries: Bool) -> BrokerEvent? {
    if !isStarted {
      isStarted = true
      return .consuming(epoch: 1)
    }
    if !reportedPublishing {
      reportedPublishing = true
      return .publishing
    }
    write()
    if confirmedSequence < sequence, outputError == nil {
      confirmedSequence = sequence
      return .confirmed(1...sequence)
    }
    return isStopped || !takesDeliveries ? nil : nextDelivery()
  }

  private var inFlight: Int { Int(tag - acknowledgedTag) - settledSingly.count }

  private mutating func nextDelivery() -> BrokerEvent? {
    guard inFlight < JSONLinesBroker.inFlightMaximum else { return nil }
    let now = unixMilliseconds()
    if let index = retries.firstIndex(where: { $0.dueAt <= now }) {
      let retry = retries.remove(at: index)
      return delivery(.retry(retry), count: retry.body.count, isOversized: false)
    }
    if nextLine == lines.count {
      guard !isAtEnd, retries.count < JSONLinesBroker.retriesMaximum else {
        return isAtEnd && retries.isEmpty && inFlight == 0 ? exhausted() : nil
      }
      (lines, isAtEnd) = input.take()
      nextLine = 0
      if lines.isEmpty { return nil }
    }
    let line = lines[nextLine]
    nextLine += 1
    switch line {
    case .bytes(let bytes): return delivery(.line(line), count: bytes.count, isOversized: false)
    case .oversized(let count): return delivery(.line(line), count: count, isOversized: true)
    }
  }

  private var reportedExhausted = false

  private mutating func exhausted() -> BrokerEvent? {
    if reportedExhausted { return nil }
    reportedExhausted = true
    return .exhausted
  }

  private mutating func delivery(_ pending: Pending, count: Int, isOversized: Bool) -> BrokerEvent {
    current = pending
    tag += 1
    return .delivery(
      Delivery(
        tag: DeliveryTag(epoch: 1, jobClass: .transactional, value: tag), bodyCount: count, isOversized: isOversized))
  }

  package mutating func copyDelivery(into job: inout PushJob, metadata: inout MessageMetadata) {
    metadata.reset()
    job.bytes.removeAll(keepingCapacity: true)
    switch current {
    case .line(.bytes(let bytes)):
      job.bytes.append(contentsOf: bytes)
    case .retry(let retry):
      job.bytes.append(contentsOf: retry.body)
      metadata = retry.metadata
      metadata.attempts = retry.state.attempts
      metadata.firstSeen = retry.state.firstSeen
      metadata.claim = retry.state.claim
      metadata.isAmbiguous = retry.state.isAmbiguous
      metadata.apnsID = retry.state.apnsID
    case .line(.oversized), nil:
      break
    }
    job.bodyCount = job.bytes.count
    current = nil
  }

  package mutating func publishOutcome(
    _ body: [UInt8], routingKey: [UInt8], apnsID: UUIDValue, metadata: borrowing MessageMetadata
  ) -> UInt64 {
    unwritten.append(contentsOf: body)
    unwritten.append(UInt8(ascii: "\n"))
    sequence += 1
    return sequence
  }

  package mutating func publishRetry(
    _ body: [UInt8], jobClass: JobClass, delaySeconds: Int, state: RetryState, metadata: borrowing MessageMetadata
  ) -> UInt64 {
    let dueAt = unixMilliseconds() + Int64(delaySeconds) * 1000
    retries.append(Retry(dueAt: dueAt, body: body, state: state, metadata: copy metadata))
    sequence += 1
    return sequence
  }

  /// A line is delivered once, so no job is isolated.
  package mutating func publishIsolated(
    _ body: [UInt8], jobClass: JobClass, firstSeen: Int64, metadata: borrowing MessageMetadata
  ) -> UInt64 {
    preconditionFailure("a line that was given once was not finished before")
  }

  /// The outcome is enough; there is no dead-letter queue.
  package mutating func publishDeadLetter(
    _ body: [UInt8], jobClass: JobClass, reason: StaticString, detail: String, apnsID: UUIDValue?,
    metadata: borrowing MessageMetadata
  ) -> UInt64 {
    sequence += 1
    return sequence
  }

  package mutating func acknowledge(upTo tag: DeliveryTag) {
    acknowledgedTag = max(acknowledgedTag, tag.value)
    if !settledSingly.isEmpty { settledSingly = settledSingly.filter { $0 > acknowledgedTag } }
  }

  package mutating func acknowledge(one tag: DeliveryTag) {
    settleOne(tag)
  }

  package mutating func reject(_ tag: DeliveryTag, requeue: Bool) {
    settleOne(tag)
  }

  private mutating func settleOne(_ tag: DeliveryTag) {
    if tag.value > acknowledgedTag { settledSingly.insert(tag.value) }
  }

  package mutating func stopConsuming() {
    isStopped = true
    input.cancel()
  }

  private mutating func write() {
    guard !unwritten.isEmpty, outputError == nil else { return }
    do {
      try output.write(contentsOf: unwritten)
    } catch {
      outputError = "\(error)"
    }
    unwritten.removeAll(keepingCapacity: true)
  }
}
