package import Foundation
import PushIO
import PushLane
package import PushSettings

/// Reads outcomes from the results log, for `herald results`.
package struct ResultsReader {
  package enum Start: String, CaseIterable, Sendable {
    case first, last, next
  }

  package struct NoLog: Error, CustomStringConvertible {
    package var description: String { "there is no results log: set results.log to true and start a worker once" }
  }

  /// After this long without an outcome, the end of the log is reached.
  private static let idleMilliseconds: Int64 = 1000

  private let access: BrokerAdmin

  package init(_ configuration: Configuration) throws {
    access = try BrokerAdmin(configuration)
  }

  /// Writes one outcome a line, to the end of the log or, with `follow`, without end.
  package func run(from start: Start, follow: Bool, limit: Int?, output: FileHandle) throws {
    let admin = try access.connect("results")
    defer { admin.close() }
    guard try admin.messageCount(queue: access.topology.resultsLogQueue) != nil else { throw NoLog() }
    let offset: AMQPStreamOffset =
      switch start {
      case .first: .first
      case .last: .last
      case .next: .next
      }
    var failure: (any Error)?
    try admin.consume(
      queue: access.topology.resultsLogQueue, offset: offset, prefetch: 1000, limit: limit,
      idleMilliseconds: follow ? nil : ResultsReader.idleMilliseconds
    ) { message in
      do {
        try output.write(contentsOf: Data(message.body + [UInt8(ascii: "\n")]))
        return .acknowledge
      } catch {
        failure = error
        return nil
      }
    }
    if let failure { throw failure }
  }
}
