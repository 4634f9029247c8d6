package import Foundation
import PushCore
package import PushWorker

/// What a worker pauses, as lines: a table for people, JSON for programs.
package enum PausesTable {
  package static func lines(_ pauses: [WorkerStatus.Pause], now: Date = Date()) -> [String] {
    if pauses.isEmpty { return ["nothing is paused"] }
    return TextTable.lines(
      [["CREDENTIAL", "ENVIRONMENT", "TOPIC", "CLASS", "FOR", "NEXT PROBE", "REASON"]]
        + pauses.map { pause in
          let seconds = max(0, Int64(now.timeIntervalSince1970) - pause.since / 1_000)
          return [
            pause.credential, pause.environment, pause.topic ?? "all", pause.class ?? "all", "\(seconds) s",
            pause.nextProbeMs == 0 ? "now" : "in \(pause.nextProbeMs / 1_000 + 1) s", pause.reason,
          ]
        })
  }

  package static func jsonLines(_ pauses: [WorkerStatus.Pause]) throws -> [String] {
    let encoder = JSONEncoder()
    encoder.keyEncodingStrategy = .convertToSnakeCase
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    return try pauses.map { String(decoding: try encoder.encode($0), as: UTF8.self) }
  }
}
