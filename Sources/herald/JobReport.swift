import Foundation
import PushCore
import PushOperations
import PushStores

/// A job for an audience as lines: a table for people, JSON for programs.
struct JobReport {
  private struct Row: Encodable {
    var id: String
    var state: String
    var cancelled: Bool
    var dryRun: Bool
    var app: String
    var environment: String
    var jobClass: String
    /// Devices found, devices in published pages, and devices with an outcome.
    var devices: UInt64
    var pages: UInt32
    var pagesSettled: UInt32
    var settled: UInt64
    /// Devices whose push APNs answered for good.
    var sent: UInt64
    var outcomes: [String: UInt64]
    /// The part of the registry that was searched, 0 to 1; null if unknown.
    var expanded: Double?
    /// An estimate of the whole audience's devices; null if there is none.
    var estimatedDevices: UInt64?
    /// Devices that got an outcome, a second.
    var rate: Double
    var secondsLeft: Int64?
    /// Unix milliseconds.
    var begunAt: Int64
    var endedAt: Int64?
    var progressLost: Bool
    /// Why it has no devices, or will never have all of them or all their ends.
    var detail: String?

    enum CodingKeys: String, CodingKey {
      case id, state, cancelled, app, environment, devices, pages, settled, sent, outcomes, expanded, rate, detail
      case dryRun = "dry_run"
      case jobClass = "class"
      case pagesSettled = "pages_settled"
      case estimatedDevices = "estimated_devices"
      case secondsLeft = "seconds_left"
      case begunAt = "begun_at"
      case endedAt = "ended_at"
      case progressLost = "progress_lost"
    }
  }

  private let row: Row

  /// - Parameter now: Unix milliseconds.
  init(_ id: String, _ progress: ExpansionProgress, now: Int64) {
    let summary = progress.summary
    let settled = summary.settled
    let milliseconds = max(1, (progress.ended ?? now) - progress.begun)
    let rate = Double(settled) * 1000 / Double(milliseconds)
    var expanded: Double?
    var estimate: UInt64?
    if let ordinal = progress.ordinal {
      if let all = progress.ordinals, all > 0, ordinal > 0 {
        let part = min(1, Double(ordinal) / Double(all))
        expanded = part
        estimate = UInt64(exactly: (Double(summary.devices) / part).rounded(.down))
      }
    } else {
      expanded = 1
      estimate = summary.devices
    }
    var left: Int64?
    if progress.phase == .running, !progress.isDryRun, let estimate, rate > 0 {
      left = Int64(exactly: ((Double(estimate) - Double(settled)) / rate).rounded(.towardZero))
    }
    row = Row(
      id: id, state: progress.phase.rawValue, cancelled: progress.isCancelled, dryRun: progress.isDryRun,
      app: progress.app, environment: progress.environment, jobClass: progress.jobClass.name,
      devices: summary.devices, pages: progress.pages, pagesSettled: progress.settledPages, settled: settled,
      sent: summary.sent,
      outcomes: Dictionary(
        uniqueKeysWithValues: zip(PageEnd.all, summary.counts).filter { $0.1 > 0 }.map { ($0.0.name, $0.1) }),
      expanded: expanded, estimatedDevices: estimate, rate: (rate * 10).rounded() / 10, secondsLeft: left,
      begunAt: progress.begun, endedAt: progress.phase == .completed ? progress.ended : nil,
      progressLost: progress.isPartlyForgotten, detail: progress.detail)
  }

  func json() throws -> String {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    return String(decoding: try encoder.encode(row), as: UTF8.self)
  }

  var lines: [String] {
    var rows = [
      ["job", row.id], ["state", row.cancelled && row.state == "completed" ? "completed, cancelled" : row.state],
      ["app", "\(row.app), \(row.environment), \(row.jobClass)"],
      ["devices", "\(row.devices)" + (row.dryRun ? ", only counted" : " in \(row.pages) pages")],
    ]
    if let expanded = row.expanded, expanded < 1 {
      rows.append(["searched", "\(Int(expanded * 100)) % of the registry, about \(row.estimatedDevices ?? 0) devices"])
    }
    if !row.dryRun {
      rows.append(["sent", "\(row.sent)"])
      rows.append(["ended", "\(row.settled)"])
      for end in PageEnd.all {
        if let count = row.outcomes[end.name] { rows.append(["  \(end.name)", "\(count)"]) }
      }
      rows.append(["rate", "\(row.rate) devices a second"])
      if let left = row.secondsLeft { rows.append(["left", "about \(left) s"]) }
      let open = row.devices - min(row.devices, row.settled)
      if open > 0, row.state == "paused" || row.state == "cancelled" {
        rows.append(["note", "up to \(open) devices have no end yet; only those on the wire still get their push"])
      }
    }
    rows.append(["begun", JobReport.time(row.begunAt)])
    if let ended = row.endedAt { rows.append(["completed", JobReport.time(ended)]) }
    if let detail = row.detail { rows.append(["note", detail]) }
    return TextTable.lines(rows)
  }

  private static func time(_ unixMilliseconds: Int64) -> String {
    Date(timeIntervalSince1970: Double(unixMilliseconds) / 1000).formatted(.iso8601)
  }
}
