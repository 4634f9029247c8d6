import APNsSimulator
public import ArgumentParser
import Foundation
import PushCore

/// `apns-simulator`: an APNs to test against, from the command line.
@main
struct SimulatorCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "apns-simulator",
    abstract: "An APNs to test against: strict, or fast, and faulty on demand.",
    discussion: """
      Without arguments it makes its own CA, certificate and signing key in a temporary folder, listens on free \
      ports of 127.0.0.1 and prints a curl line that works. Standard output gets one line of JSON once it is ready.

      A fault is a line of words with commas between them, for --fault, or for POST /faults at the control port. Such as \
      share=0.1,status=503,reason=ServiceUnavailable

      FAULTS
      \(FaultRule.manual)

      CONTROL PORT (HTTP)
        GET /, /counters, /connections, /ledger, /acceptances
        GET /notifications, /activities, /faults
        POST /faults, /actions, /activities, /devices, /keys, /apps, /clock
        DELETE /faults, /faults/ID, /activities, /ledger
      Lines that POST takes there:
        /actions       goaway=… or drop or streams=… or shutdown or revoke=KEY
        /activities    swipe DEVICE ID (the device *: all)
        /devices       TOKEN unregistered [MS] or TOKEN foreign or TOKEN topic=T
                       or TOKEN device=ID or TOKEN ok
        /keys          KEY environment=E topics=A/B related=KEY team=T
                       or KEY any or KEY revoked
        /apps          APP broadcast=off or APP broadcast=on
        /clock         seconds that the simulated Apple's clock is ahead
      """,
    version: "1.0.0")

  @Option(help: "The IP address to listen on.")
  var host = "127.0.0.1"
  @Option(help: "Port for notifications and broadcasts; 0: any free one.")
  var port: UInt16 = 0
  @Option(help: "Port for channel management; 0: any free one.")
  var managePort: UInt16 = 0
  @Option(help: "Control port (HTTP/1.1, always on loopback); 0: any free one.")
  var controlPort: UInt16 = 0

  @Option(help: "The server's certificate, PEM.")
  var certificate: String?
  @Option(help: "The certificate's private key, PEM.")
  var key: String?
  @Option(name: .customLong("client-ca"), help: "The CA of client certificates, PEM.")
  var clientAuthority: String?
  @Option(help: "The folder for generated files; default: a temporary one.")
  var folder: String?
  @Flag(help: "HTTP/2 with prior knowledge instead of TLS.")
  var plaintext = false

  @Option(help: "The team of --public-key, or of the generated key.")
  var team = "SIMTEAM001"
  @Option(help: "The id of --public-key, or of the generated key.")
  var keyID = "SIMKEY0001"
  @Option(help: "The public half of your signing key, PEM: `openssl pkey -in AuthKey.p8 -pubout`.")
  var publicKey: String?
  @Option(help: "Makes a signing key and writes AuthKey.p8 and credential.json into this folder.")
  var writeCredential: String?
  @Flag(help: "Accepts every well-formed ES256 token, whatever its key.")
  var anyKey = false
  @Flag(help: "Lets requests without a credential pass.")
  var noCredentials = false

  @Flag(help: "Plays the sandbox: takes keys of the sandbox, answers with apns-unique-id.")
  var sandbox = false
  @Flag(help: "Accepts anything well-formed, as quickly as possible.")
  var fast = false
  @Flag(help: "With --fast: does not count how often each apns-id came.")
  var noIds = false
  @Flag(help: "Takes any payload within the size limit.")
  var lenientPayloads = false
  @Flag(help: "Ignores the prefixes of device tokens that ask for a fault; --prefixes lists them.")
  var noPrefixes = false
  @Flag(help: "Prints the table of token prefixes and exits.")
  var prefixes = false
  @Option(help: "A fault, as described above; may be repeated.")
  var fault: [String] = []
  @Option(
    help:
      "Where devices register the update tokens of Live Activities: http://… (one POST each) or amqp://… (one message each)."
  )
  var registrations: String?
  @Option(help: "With amqp://…: the queue.")
  var registrationsQueue = "push.registrations"
  @Option(help: "Milliseconds from the start of a Live Activity to the registration of its update token.")
  var registerAfter = 200
  @Option(help: "Where in `attributes` the app keeps a Live Activity's id; dots are a path.")
  var activityIDAttribute = "activityId"
  @Option(help: "Maximum number of Live Activities that are kept; 0: devices display none.")
  var activities = 50_000
  @Option(help: "Maximum requests to one device in a second, more get 429; 0: no maximum.")
  var deviceLimit = 0
  @Option(help: "Minimum seconds between two provider tokens, an earlier one gets 429; 0: no minimum.")
  var tokenInterval: Int64 = 1200
  @Option(help: "Where --token-interval counts: connection, as Apple documents, or key: over all connections.")
  var tokenScope = SimulatorOptions.TokenScope.connection
  @Option(help: "Maximum streams that a connection may have open.")
  var streams = 1000
  @Flag(help: "Allows that many streams at once; default: one until the first valid request.")
  var streamsAtOnce = false
  @Option(help: "Seconds that the simulated Apple's clock is ahead of this machine's.")
  var clockOffset: Int64 = 0
  @Option(help: "Maximum number of requests that the ledger keeps, the newest.")
  var entries = 200_000
  @Option(help: "The seed of every random choice.")
  var seed: UInt64 = 1
  @Flag(help: "Prints nothing but errors on standard error.")
  var quiet = false

  func validate() throws {
    if (certificate == nil) != (key == nil) { throw ValidationError("--certificate and --key belong together") }
    if plaintext && certificate != nil { throw ValidationError("--plaintext and --certificate exclude each other") }
    if publicKey != nil && writeCredential != nil {
      throw ValidationError("--public-key and --write-credential exclude each other")
    }
    if streams < 1 || [deviceLimit, Int(tokenInterval), entries, registerAfter, activities].contains(where: { $0 < 0 })
    {
      throw ValidationError(
        "--streams is at least 1; --device-limit, --token-interval, --entries, --register-after and --activities at least 0"
      )
    }
    if activityIDAttribute.split(separator: ".").isEmpty {
      throw ValidationError("--activity-id-attribute is a key, or keys with dots between them")
    }
    if fast && registrations != nil {
      throw ValidationError("--fast and --registrations exclude each other: the fast mode plays no devices")
    }
  }

  func run() throws {
    if prefixes {
      for row in TokenPrefixTable.rows { print("\(row.prefix)…  \(row.meaning)") }
      return
    }
    var options = SimulatorOptions()
    do {
      options.faults = try fault.map { try FaultRule($0) }
      options.registrations = try registrations.map(registrationTarget)
    } catch { throw ValidationError("\(error)") }
    do {
      try SimulatorSession(command: self, options: apply(to: options)).run()
    } catch {
      FileHandle.standardError.write(Data("apns-simulator: \(error)\n".utf8))
      throw ExitCode(1)
    }
  }

  private func registrationTarget(_ url: String) throws(SimulatorError) -> RegistrationTarget {
    switch url.split(separator: ":", maxSplits: 1).first?.lowercased() {
    case "http": return try .webhook(url)
    case "amqp", "amqps": return try .queue(url, name: registrationsQueue)
    default: break
    }
    throw SimulatorError("--registrations takes http://host:port/path or amqp://user:password@host:port/vhost")
  }

  private func apply(to given: SimulatorOptions) -> SimulatorOptions {
    var options = given
    options.host = host
    options.port = port
    options.managePort = managePort
    options.controlPort = controlPort
    options.environment = sandbox ? .sandbox : .production
    options.isFast = fast
    options.countsIdentifiers = !noIds
    options.checksPayloads = !lenientPayloads
    options.usesTokenPrefixes = !noPrefixes
    options.checksCredentials = !noCredentials
    options.acceptsAnyKey = anyKey
    options.tokenUpdateIntervalSeconds = tokenInterval
    options.tokenScope = tokenScope
    options.registerAfterMilliseconds = registerAfter
    options.activityIDAttribute = activityIDAttribute
    options.activitiesMaximum = activities
    options.deviceRequestsPerSecond = deviceLimit == 0 ? nil : deviceLimit
    options.maximumStreams = streams
    options.startsWithOneStream = !streamsAtOnce
    options.clockOffsetSeconds = clockOffset
    options.ledgerBounds.entriesMaximum = entries
    options.seed = seed
    return options
  }
}

extension SimulatorOptions.TokenScope: ExpressibleByArgument {}
