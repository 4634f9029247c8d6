package import PushCore

/// A lane's counts since its start. Only its own thread changes them; a scrape gets a copy.
package struct LaneCounters: Sendable {
  /// Labels of `herald_retries_total`: bounded for all answers of APNs and all changes of the configuration.
  package struct RetryKey: Hashable, Sendable {
    /// A reason that Apple documents, `none`, or `other`.
    package var reason: String
    /// A configured delay; nil: another.
    package var delaySeconds: Int?

    package init(reason: String, delaySeconds: Int?) {
      self.reason = reason
      self.delaySeconds = delaySeconds
    }
  }

  package struct OutcomeCount: Sendable {
    package var outcome: Outcome
    package var environment: APNsEnvironment
    package var app: String
    package var pushType: PushType
    package var count: UInt64
  }

  package var received: [UInt64] = Array(repeating: 0, count: JobClass.allCases.count)
  package var handedBack: UInt64 = 0
  /// Copies put into the queue of isolated jobs.
  package var isolated: UInt64 = 0
  /// Jobs for audiences whose copies became pages elsewhere.
  package var handedOver: UInt64 = 0
  /// Pages that waited in a retry queue because their devices could not be looked up, or were looked up too long ago.
  package var pagesPostponed: UInt64 = 0
  /// Devices of pages that were gone, or had no token.
  package var devicesSkipped: UInt64 = 0
  package private(set) var retries: [RetryKey: UInt64] = [:]
  /// (job, target)s whose outcome or copy the broker confirmed.
  package var settled: UInt64 = 0
  /// By outcome: those of `outcomeCounts` that are marked `ambiguous`.
  package var ambiguous: [UInt64] = Array(repeating: 0, count: Outcome.allCases.count)
  package var deadLetters: [String: UInt64] = [:]
  package var rateLimited: UInt64 = 0
  package var suppressed: UInt64 = 0
  package var duplicatesSuppressed: UInt64 = 0
  /// From delivery to acknowledgement, seconds.
  package var jobDuration = Histogram()
  /// From enqueue (the message's timestamp) to outcome, seconds.
  package var jobAge = Histogram()
  /// One loop turn, seconds.
  package var turnDuration = Histogram()

  private let retryDelaysSeconds: [Int]
  private var apps = AppLabels()
  private var outcomes: [UInt64] = []

  private static let perApp = APNsEnvironment.allCases.count * PushType.allCases.count * Outcome.allCases.count

  /// - Parameter retryDelaysSeconds: delays with a label of their own.
  package init(retryDelaysSeconds: [Int] = RetryPolicy().delaysSeconds) {
    self.retryDelaysSeconds = retryDelaysSeconds
  }

  /// Counts a copy into a retry queue, with APNs' last reason.
  package mutating func countRetry(_ reason: APNsReason?, delaySeconds: Int) {
    let name =
      switch reason {
      case nil: "none"
      case .other: "other"
      case .some(let known): known.name
      }
    let delay = retryDelaysSeconds.contains(delaySeconds) ? delaySeconds : nil
    retries[RetryKey(reason: name, delaySeconds: delay), default: 0] += 1
  }

  /// These apps of credentials have labels of their own, whatever other apps come.
  package mutating func reserveLabels(for names: [String]) {
    for name in names { apps.reserve(name) }
  }

  package mutating func appIndex(of job: borrowing PushJob) -> Int {
    apps.index(of: job.bytes.span.extracting(job.app.range))
  }

  package func appName(_ index: Int) -> String { apps.name(index) }

  package mutating func count(_ outcome: Outcome, _ environment: APNsEnvironment, app: Int, _ pushType: PushType) {
    let offset =
      (Int(environment.rawValue) * PushType.allCases.count + Int(pushType.rawValue)) * Outcome.allCases.count
      + Int(outcome.rawValue)
    let index = app * Self.perApp + offset
    while outcomes.count <= index { outcomes.append(contentsOf: repeatElement(0, count: Self.perApp)) }
    outcomes[index] += 1
  }

  /// Every combination that occurred.
  package var outcomeCounts: [OutcomeCount] {
    var counts: [OutcomeCount] = []
    for (index, count) in outcomes.enumerated() where count > 0 {
      let offset = index % Self.perApp
      let outcome = Outcome.allCases[offset % Outcome.allCases.count]
      let pushType = PushType.allCases[offset / Outcome.allCases.count % PushType.allCases.count]
      let environment = APNsEnvironment.allCases[offset / Outcome.allCases.count / PushType.allCases.count]
      counts.append(
        OutcomeCount(
          outcome: outcome, environment: environment, app: apps.name(index / Self.perApp), pushType: pushType,
          count: count))
    }
    return counts
  }
}
