package import PushCore

/// How a page's directory treats devices whose end another copy of the page told.
package enum SettledDevices: Sendable {
  /// They have no target.
  case leftOut
  /// Nothing is sent to them. This copy may have been sent, and then their outcomes say so.
  case asked
  /// Like all others: an operator sends the page again.
  case found
}

/// Why nobody can say now who a page's devices are.
package enum DirectoryFailure: Error, Hashable, Sendable {
  /// Nobody answered, or what is asked is about to change.
  case silent
  /// What is stored cannot be read, which may be so for good. With why.
  case unreadable(String)
}

/// Who the devices of a page are, as a lane sees it: their tokens are read when the page is sent. One call serves up to 500 targets, so it
/// may be dynamic. Nothing here blocks.
package protocol AudienceDirectory: AnyObject {
  /// Devices are known at all; where not, jobs for audiences and pages are refused.
  var knowsDevices: Bool { get }

  /// Once at the start of every turn: what its connections have, deadlines.
  func maintain(now: Now)

  /// Asks for a page's devices; the answer comes from `nextAnswer`, at the latest after the directory's own deadline.
  /// - Parameters:
  ///   - isOver: the page is not sent any more; the devices are for its outcomes.
  ///   - mayPause: while its job is paused, the page waits. false: its expiration is over, or it cannot be sent at all.
  ///   - settled: devices whose end another copy of the page told.
  ///   - apnsID: that the page was published with, or a copy of it; nil: none. Of a late token's page it names the token.
  func find(
    _ job: borrowing PushJob, isOver: Bool, mayPause: Bool, settled: SettledDevices, apnsID: UUIDValue?, ticket: Ticket,
    now: Now)

  /// The next answer of this turn; nil once everything is reported. After a failure the page comes again later.
  func nextAnswer(now: Now) -> DirectoryAnswer?

  /// Asks whether the pages of a job for an audience may be sent; the answer comes from `nextStanding`.
  func ask(about job: AudienceID, index: Int)

  /// The next answer of this turn, with the index that was asked with; nil once everything is reported. A standing of nil: nobody can say
  /// now.
  func nextStanding() -> (index: Int, job: AudienceID, standing: AudienceStanding?)?

  /// APNs said that a target's token is gone since then (Unix milliseconds). Nobody waits for it.
  func tokenGone(_ job: borrowing PushJob, target: Int, since: Int64)

  /// What could not be read since the last call, for output.
  func takeUnreadable() -> String?

  /// Says goodbye.
  func close()
}

extension AudienceDirectory {
  package func takeUnreadable() -> String? { nil }
}

/// An answer to `AudienceDirectory.find`.
package typealias DirectoryAnswer = (ticket: Ticket, found: Result<PageResolution, DirectoryFailure>)

/// Of a lane without a registry.
package final class NoDirectory: AudienceDirectory {
  package init() {}

  package var knowsDevices: Bool { false }
  package func maintain(now: Now) {}
  package func find(
    _ job: borrowing PushJob, isOver: Bool, mayPause: Bool, settled: SettledDevices, apnsID: UUIDValue?, ticket: Ticket,
    now: Now
  ) {
    preconditionFailure("pages are refused here")
  }
  package func nextAnswer(now: Now) -> DirectoryAnswer? { nil }
  package func ask(about job: AudienceID, index: Int) { preconditionFailure("pages are refused here") }
  package func nextStanding() -> (index: Int, job: AudienceID, standing: AudienceStanding?)? { nil }
  package func tokenGone(_ job: borrowing PushJob, target: Int, since: Int64) {}
  package func close() {}
}
