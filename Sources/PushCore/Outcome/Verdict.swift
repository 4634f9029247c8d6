/// What APNs' answer means for the job, for its connection, and for the credential.
///
/// `VerdictTable.swift` has the table. A verdict is a pure value: the lane acts on `fate`, the pools on the rest
/// (`PushService.apply`).
package struct Verdict: Hashable, Sendable {
  /// What becomes of the job.
  package enum Fate: Hashable, Sendable {
    /// Accepted: outcome `accepted`.
    case accept
    /// Refused for good: outcome `rejected`.
    case reject
    /// The device token is gone: outcome `unregistered`; mark the token.
    case dead
    /// APNs said 410, but the token was registered after the time that it names: outcome `unregistered`; no mark.
    case unregisteredBefore
    /// Surely not processed: send again now, on another connection. Does not count.
    case resend
    /// May have been processed: send once more now, on another connection, with the same `apns-id`. Counts.
    case sendOnceMore
    /// The provider token was too old: renew it, then send again, once.
    case renew
    /// Later: `RetryPolicy` says when.
    case retry
    /// Later, and does not count: the credential has to wait.
    case hold
  }

  /// What becomes of the connection.
  package enum ConnectionAdvice: Hashable, Sendable {
    case keep
    /// Give it fewer streams for a while: APNs is overloaded.
    case fewerStreams
    /// Open no more streams on it, let the others finish, replace it.
    case close
  }

  /// What becomes of the provider token.
  package enum TokenAdvice: Hashable, Sendable {
    case keep
    /// Too old: make a new one now.
    case renew
    /// APNs may refuse it because of its `iat`: replace it then.
    case replaceIfMisdated
    /// Renewed too often: keep the older one, and make none for 20 minutes. If there is no older one, only probes are sent.
    case keepOlder
  }

  /// What stops, with an alarm, until an operator or a successful probe ends it. Its jobs go to the retry queues.
  package enum Pause: Hashable, Sendable {
    case none
    /// Everything that this credential sends.
    case credential
    /// The credential in this environment.
    case credentialInEnvironment
    /// The credential for this app.
    case credentialForApp
    /// The topic, if such answers repeat.
    case topicWhenRepeated
    /// The credential for this topic, if such answers repeat.
    case credentialWhenRepeated
    /// Topic and class, if none of the last 200 answers was accepted: certainly the wrong environment.
    case topicAndClassWhenNoneAccepted
    /// The app's broadcasts, but not its pushes to devices.
    case broadcastsOfApp
    /// Creation of channels: the app has its maximum.
    case channelCreation
  }

  /// What else to remember. None of it changes the job's fate.
  package struct Notes: OptionSet, Hashable, Sendable {
    package let rawValue: UInt8
    package init(rawValue: UInt8) { self.rawValue = rawValue }

    /// The device token was refused: send further requests to it over the connection for bad tokens.
    package static let badToken = Notes(rawValue: 1)
    /// Our validation or our code let this through: count it.
    package static let ourFault = Notes(rawValue: 2)
    /// Tighten the device's rate.
    package static let tightenDevice = Notes(rawValue: 4)
    /// The broadcast channel is gone.
    package static let deadChannel = Notes(rawValue: 8)
    /// APNs may have accepted the request: later attempts carry the same `apns-id`, the outcome says `ambiguous`.
    package static let ambiguous = Notes(rawValue: 16)
    /// There was no reason, or one that is not in the table: the status decided.
    package static let unknownReason = Notes(rawValue: 32)
  }

  package var fate: Fate
  package var connection: ConnectionAdvice
  package var token: TokenAdvice
  package var pause: Pause
  package var notes: Notes

  package init(
    _ fate: Fate, connection: ConnectionAdvice = .keep, token: TokenAdvice = .keep, pause: Pause = .none,
    notes: Notes = []
  ) {
    self.fate = fate
    self.connection = connection
    self.token = token
    self.pause = pause
    self.notes = notes
  }

  /// Whether anything but the job is concerned. If not, `PushService.apply` need not be called.
  package var concernsService: Bool {
    connection != .keep || token != .keep || pause != .none
  }
}
