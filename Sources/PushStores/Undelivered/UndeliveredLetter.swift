import PushCore
import PushIO
import PushLane

/// The dead letter of a message that RabbitMQ gave up, and whose end was told before, or is told by nobody. It says what RabbitMQ's own would:
/// why it left its queue, and which that was.
struct UndeliveredLetter {
  let reason: String
  let detail: String?
  /// `x-herald-class`; nil: unknown.
  let className: String?
  /// Workers may have sent it each time.
  let isAmbiguous: Bool

  init(_ deaths: [AMQPDeath], _ headers: [AMQPArgument], _ topology: Topology) {
    let ours = [topology.undeliveredQueue, topology.lateQueue]
    // RabbitMQ keeps only the latest in its place. Retry queues hand on; what leaves to us leaves another queue.
    let others = deaths.filter { !ours.contains($0.queue) }
    let deaths = others.filter { topology.queue(ofRetry: $0.queue) == $0.queue } + others
    reason = deaths.first?.reason ?? headers.firstText(of: "x-herald-reason") ?? "unroutable"
    detail = deaths.isEmpty ? headers.firstText(of: "x-herald-detail") : nil
    isAmbiguous = deaths.contains { $0.reason == "delivery_limit" }
    let queue = deaths.first.map { topology.queue(ofRetry: $0.queue) }
    if let queue, topology.channelQueues.contains(queue) {
      className = "channels"
    } else if queue == topology.registrationsQueue {
      className = "registrations"
    } else {
      let ofQueue = JobClass.allCases.first { queue == topology.jobsQueue($0) || queue == topology.expansionsQueue($0) }
      className = headers.firstText(of: "x-herald-class") ?? ofQueue.map { $0 == .bulk ? "bulk" : "transactional" }
    }
  }

  func describe(_ properties: AMQPProperties) {
    properties.addHeader("x-herald-reason", reason)
    if let detail { properties.addHeader("x-herald-detail", detail) }
    if let className { properties.addHeader("x-herald-class", className) }
  }
}
