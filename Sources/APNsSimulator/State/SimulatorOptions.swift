package import PushCore
package import PushIO

/// A simulator's options. The defaults are a strict production APNs on free loopback ports, in plaintext.
public struct SimulatorOptions: Sendable {
  /// The layer between the client and HTTP/2.
  public struct Security: Sendable {
    enum Kind: Sendable {
      case plaintext
      case files(certificate: String, key: String, clientAuthority: String?)
      case ownAuthority(folder: String)
      case context(TLSContext)
    }

    let kind: Kind

    /// HTTP/2 with prior knowledge, without TLS.
    public static let plaintext = Security(kind: .plaintext)

    /// The certificate and key in these PEM files. With `clientAuthority` (a PEM file), certificates that it issued are credentials.
    public static func files(certificate: String, key: String, clientAuthority: String? = nil) -> Security {
      Security(kind: .files(certificate: certificate, key: key, clientAuthority: clientAuthority))
    }

    /// An own authority and a certificate for `localhost`, 127.0.0.1 and ::1, made at every start and written to this folder, which is
    /// created if it is missing. `SimulatorPorts` has the authority to trust.
    public static func ownAuthority(folder: String) -> Security { Security(kind: .ownAuthority(folder: folder)) }

    /// A context made elsewhere.
    package static func context(_ context: TLSContext) -> Security { Security(kind: .context(context)) }
  }

  /// Where provider tokens are counted.
  public typealias TokenScope = ProviderTokenScope

  /// A numeric address.
  public var host = "127.0.0.1"
  /// Notifications and broadcasts; 0: any free port.
  public var port: UInt16 = 0
  /// Channel management; 0: any free port, nil: none.
  public var managePort: UInt16? = 0
  /// The HTTP/1.1 control port, on loopback; 0: any free port, nil: none.
  public var controlPort: UInt16?
  package var environment = APNsEnvironment.production
  /// The sandbox instead of production: it answers with `apns-unique-id`.
  public var isSandbox: Bool {
    get { environment == .sandbox }
    set { environment = newValue ? .sandbox : .production }
  }
  /// Plaintext, or TLS and its certificate.
  public var security = Security.plaintext

  /// Accepts anything well-formed with as little work as possible, and keeps counts only.
  public var isFast = false
  /// In fast mode: whether acceptances are counted by `apns-id`.
  public var countsIdentifiers = true
  /// Whether the first four digits of a device token may ask for a fault (`apns-simulator --prefixes`).
  public var usesTokenPrefixes = true
  /// Off: requests without a credential pass.
  public var checksCredentials = true
  /// Whether tokens of unregistered keys count as validly signed.
  public var acceptsAnyKey = false
  /// Off: any payload within the size limit passes.
  public var checksPayloads = true
  /// How long a provider token stays before the next one may come; 0: as often as you like.
  public var tokenUpdateIntervalSeconds: Int64 = 20 * 60
  /// Where provider tokens are counted for that.
  public var tokenScope = TokenScope.connection
  /// Maximum of requests per device and second; nil: no maximum.
  public var deviceRequestsPerSecond: Int?
  /// SETTINGS_MAX_CONCURRENT_STREAMS.
  public var maximumStreams = 1000
  /// One stream until the first valid request of a connection without a certificate, as APNs does.
  public var startsWithOneStream = true
  /// Added to the clock by which tokens and expirations are judged.
  public var clockOffsetSeconds: Int64 = 0
  /// The signing keys that it knows.
  public var keys: [RegisteredKey] = []
  package var faults: [FaultRule] = []
  package var ledgerBounds = Ledger.Bounds()

  /// Where simulated devices register the update tokens of their Live Activities; nil: nowhere, `Simulator.activities` has
  /// them.
  public var registrations: RegistrationTarget?
  /// Time from a start to the registration of the activity's update token.
  public var registerAfterMilliseconds = 200
  /// Where in `attributes` the app keeps the activity's id; dots are a path.
  public var activityIDAttribute = "activityId"
  /// Maximum of Live Activities kept; ended ones are evicted first. 0: devices display nothing. In fast mode they
  /// never do.
  public var activitiesMaximum = 50_000

  /// Seed of every random choice.
  public var seed: UInt64 = 1

  /// A strict production APNs on free loopback ports, in plaintext.
  public init() {}
}
