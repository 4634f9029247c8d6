/// Numbers for jobs whose producer set no `sequence`: Unix microseconds, each larger than all before.
package struct SequenceClock: Sendable {
  /// The largest number that was given; 0: none.
  package private(set) var last: Int64 = 0

  package init() {}

  /// Returns the first of so many numbers in a row.
  /// - Parameter now: Unix microseconds.
  package mutating func take(_ count: Int = 1, now: Int64) -> Int64 {
    let first = max(now, last + 1)
    last = min(first + Int64(count) - 1, Limits.sequenceMaximum)
    return min(first, Limits.sequenceMaximum)
  }

  /// Numbers that another gave, up to this one, are used.
  package mutating func follow(_ number: Int64) {
    last = max(last, min(number, Limits.sequenceMaximum))
  }
}

/// The `sequence` of a job's body.
package enum JobSequence {
  private static let keys = KeyTable(["sequence", "activity", "collapse_id", "to"])

  /// Whether a job's order matters, because it is an activity's or has a collapse id, and nobody numbered it. false also for what is no
  /// job: a worker says what is wrong with it.
  package static func isMissing(in body: [UInt8]) -> Bool {
    guard let members = try? JSONMembers(body.span, keys), members["sequence"] == nil else { return false }
    if members["activity"] != nil || members["collapse_id"] != nil { return true }
    guard let to = members["to"], let target = try? JSONMembers(body.span.extracting(to.value.range), keys) else {
      return false
    }
    return target["activity"] != nil
  }

  /// The job with its number in front of all else, which stays as it is.
  package static func adding(_ number: Int64, to body: [UInt8]) -> [UInt8] {
    guard let brace = body.firstIndex(of: ASCII.openBrace) else { return body }
    let member = "\"sequence\":\(number),".utf8
    // Without a number it may still be in order; a job that is too large is none.
    guard body.count + member.count <= Limits.jobBytesMaximum else { return body }
    var numbered: [UInt8] = []
    numbered.reserveCapacity(body.count + member.count)
    numbered.append(contentsOf: body[...brace])
    numbered.append(contentsOf: member)
    numbered.append(contentsOf: body[(brace + 1)...])
    return numbered
  }
}
