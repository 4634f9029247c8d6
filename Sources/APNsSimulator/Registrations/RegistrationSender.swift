import PushCore

/// Delivers registrations in the background of the simulator's loop. The number of waiting ones is bounded.
protocol RegistrationSender: AnyObject {
  var progress: RegistrationProgress { get }

  /// Takes a registration, or counts it as failed if too many wait.
  func send(_ registration: [UInt8])

  /// Once a turn of the loop.
  func turn()

  /// Stops; waiting registrations stay undelivered.
  func close()
}

/// The results of registrations so far.
struct RegistrationProgress: Hashable, Sendable {
  var delivered = 0
  var waiting = 0
  var repeated = 0
  var failed = 0
  var lastFailure: String?

  /// Maximum of waiting registrations.
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
