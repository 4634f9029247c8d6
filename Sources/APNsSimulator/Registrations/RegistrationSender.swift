import PushCore

/// Brings registrations to where they belong, in the background of the simulator's loop. What waits is bounded.
protocol RegistrationSender: AnyObject {
  var progress: RegistrationProgress { get }

  /// Takes a registration, or counts it as failed where too many wait.
  func send(_ registration: [UInt8])

  /// Once a turn of the loop.
  func turn()

  /// What waits stays undelivered.
  func close()
}

/// How registrations fared so far.
struct RegistrationProgress: Hashable, Sendable {
  var delivered = 0
  var waiting = 0
  var repeated = 0
  var failed = 0
  var lastFailure: String?

  /// Registrations that may wait.
  static let waitingMaximum = 100_000
}

extension ActivityCounts {
  mutating func take(_ progress: RegistrationProgress) {
    delivered = progress.delivered
    waiting = progress.waiting
    repeated = progress.repeated
    failed = progress.failed
    lastFailure = progress.lastFailure
  }
}
