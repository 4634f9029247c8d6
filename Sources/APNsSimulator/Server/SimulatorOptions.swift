package import PushCore
package import PushIO

/// How a simulator starts. Everything has a default: a strict production APNs on free loopback ports.
package struct SimulatorOptions: Sendable {
  package enum Security: Sendable {
    /// HTTP/2 with prior knowledge, without TLS: for tests.
    case plaintext
    /// The certificate and key of these PEM files. With `clientAuthority`, certificates of its making are credentials.
    case files(certificate: String, key: String, clientAuthority: String?)
    /// An own authority and a certificate for `localhost`, 127.0.0.1 and ::1, written into this folder.
    case ownAuthority(folder: String)
    /// A context made elsewhere.
    case context(TLSContext)
  }

  /// A numeric address.
  package var host = "127.0.0.1"
  /// Notifications and broadcasts; 0: any free port.
  package var port: UInt16 = 0
  /// Channel management; nil: none.
  package var managePort: UInt16? = 0
  /// The HTTP/1.1 control port, on loopback; nil: none.
  package var controlPort: UInt16?
  package var environment = APNsEnvironment.production
  package var security = Security.plaintext

  /// Accepts anything well-formed with as little work as possible, and keeps counts only.
  package var isFast = false
  /// In fast mode: whether acceptances are counted by `apns-id`.
  package var countsIdentifiers = true
  package var usesTokenPrefixes = true
  /// Off: requests without a credential pass.
  package var checksCredentials = true
  /// Whether tokens of keys that nobody registered count as well signed.
  package var acceptsAnyKey = false
  package var checksPayloads = true
  /// How long a provider token stays before the next one of its key may come; 0: as often as you like.
  package var tokenUpdateIntervalSeconds: Int64 = 20 * 60
  /// Requests that one device takes in a second; nil: any number.
  package var deviceRequestsPerSecond: Int?
  /// SETTINGS_MAX_CONCURRENT_STREAMS.
  package var maximumStreams = 1000
  /// One stream until the first valid request of a connection without a certificate, as APNs does.
  package var startsWithOneStream = true
  /// Added to the clock by which tokens and expirations are judged.
  package var clockOffsetSeconds: Int64 = 0
  package var keys: [RegisteredKey] = []
  package var faults: [FaultRule] = []
  package var ledgerBounds = Ledger.Bounds()
  /// Of every random choice.
  package var seed: UInt64 = 1

  package init() {}
}
