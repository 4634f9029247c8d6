import Foundation
import PushCore
import PushIO

/// Builds a configuration: flags override the environment, which overrides the file, which overrides the defaults. All problems are
/// reported at once.
package struct ConfigurationLoader {
  /// A value from the command line.
  package struct Override: Sendable {
    /// As the user wrote it, for messages: `--log-level`.
    package var flag: String
    package var path: String
    package var text: String

    package init(flag: String, path: String, text: String) {
      self.flag = flag
      self.path = path
      self.text = text
    }
  }

  /// Where a value came from; a later layer wins.
  private enum Layer: Int {
    case defaults, file, environment, flags
  }

  private var values = ConfigurationValues()
  private var layers: [String: Layer] = [:]
  private var credentials: [CredentialConfiguration] = []
  private var applications: [String: LiveActivitiesApplication] = [:]
  private var problems: [ConfigurationError.Problem] = []

  /// Loads a configuration.
  /// - Parameters:
  ///   - file: the YAML file; nil: there is none.
  ///   - environment: the process's variables; only `HERALD_…` counts.
  ///   - overrides: values of flags.
  package static func load(
    file: String?, environment: [String: String] = [:], overrides: [Override] = []
  ) throws(ConfigurationError) -> Configuration {
    var loader = ConfigurationLoader()
    if let file { loader.read(ConfigurationFile(path: file), folder: URL(filePath: file).deletingLastPathComponent()) }
    loader.read(environment: environment)
    for override in overrides {
      loader.take(override.path, override.text, origin: override.flag, layer: .flags)
    }
    loader.checkRelations()
    guard loader.problems.isEmpty else { throw ConfigurationError(problems: loader.problems) }
    return Configuration(
      values: loader.values, credentials: loader.credentials, applications: loader.applications, file: file)
  }

  /// The file to read if no flag names one: `HERALD_CONFIG`, then the first of the default places that exists.
  package static func defaultFile(environment: [String: String]) -> String? {
    if let file = environment["HERALD_CONFIG"], !file.isEmpty { return file }
    return ["config/herald.yaml", "/etc/herald/herald.yaml"].first { FileManager.default.fileExists(atPath: $0) }
  }

  // MARK: File

  private mutating func read(_ file: ConfigurationFile, folder: URL) {
    problems += file.problems
    for entry in file.options {
      guard let option = ConfigurationOption.byPath[entry.path] else {
        unknown(entry.path, origin: file.origin(entry.line))
        continue
      }
      set(option, entry.input, origin: file.origin(entry.line), layer: .file, folder: folder)
    }
    var reader = CredentialReader(file: file, folder: folder)
    credentials = reader.read()
    problems += reader.problems
    var applicationReader = GatewayApplicationReader(file: file)
    applications = applicationReader.read()
    problems += applicationReader.problems
  }

  // MARK: Environment

  private mutating func read(environment: [String: String]) {
    let options = Dictionary(uniqueKeysWithValues: ConfigurationOption.all.map { ($0.environmentName, $0) })
    // In a fixed order, so that messages do not change from run to run.
    for (name, text) in environment.sorted(by: { $0.key < $1.key }) where name.hasPrefix("HERALD_") {
      // Compose files and manifests pass on variables that nobody set.
      if text.isEmpty || name == "HERALD_CONFIG" { continue }
      if let option = options[name] {
        if isServiceLink(text) { continue }
        take(option.path, text, origin: name, layer: .environment)
        if let twin = environment[name + "_FILE"], !twin.isEmpty {
          problem(name, option.path, "is given twice: by \(name) and by \(name)_FILE; keep one")
        }
      } else if name.hasSuffix("_FILE"), let option = options[String(name.dropLast(5))] {
        read(option, fromFile: text, name: name)
      } else {
        unknown(variable: name, text, options.keys)
      }
    }
  }

  private mutating func read(_ option: ConfigurationOption, fromFile file: String, name: String) {
    guard let data = FileManager.default.contents(atPath: file), let text = String(data: data, encoding: .utf8) else {
      // It may be the value itself, where the shorter variable was meant.
      problem(name, option.path, "cannot read the file \(ServiceAddress.hidden(FileName.shown(file)))")
      return
    }
    let trimmed = text.trimmingCharacters(in: .whitespacesAndNewlines)
    take(option.path, trimmed, origin: "\(name) (\(file))", layer: .environment)
  }

  private mutating func unknown(variable name: String, _ text: String, _ names: some Sequence<String>) {
    // Only names that begin like an option: a Kubernetes service called herald sets HERALD_SERVICE_HOST and the like.
    let words = name.split(separator: "_")
    let isOurs = words.count > 2 && ConfigurationOption.sections.contains(words[1].lowercased())
    guard isOurs, !isServiceLink(text), !name.contains("_SERVICE_"), !name.contains("_PORT_") else { return }
    let nearest = NearestName.find(name, in: names).map { "; did you mean \($0)?" } ?? ""
    problem(name, "", "unknown variable\(nearest)")
  }

  /// The value that Kubernetes sets in variables like `HERALD_ADMIN_PORT` for a service of that name.
  private func isServiceLink(_ text: String) -> Bool {
    text.hasPrefix("tcp://") || text.hasPrefix("udp://")
  }

  // MARK: Values

  private mutating func take(_ path: String, _ text: String, origin: String, layer: Layer) {
    guard let option = ConfigurationOption.byPath[path] else {
      unknown(path, origin: origin)
      return
    }
    let input: ConfigurationInput = option.isOptional && text == "null" ? .null : option.input(of: text)
    set(option, input, origin: origin, layer: layer, folder: nil)
  }

  private mutating func set(
    _ option: ConfigurationOption, _ input: ConfigurationInput, origin: String, layer: Layer, folder: URL?
  ) {
    guard var value = option.parse(input) else {
      let null = option.isOptional ? ", or null" : ""
      problem(origin, option.path, "must be \(option.rule)\(null), not \(option.shown(input))")
      return
    }
    if case .text(.file) = option.kind, case .text(let path) = value, let folder {
      value = .text(Self.resolve(path, in: folder))
    }
    values.set(option.path, value)
    layers[option.path] = layer
    // The later layer decides which brokers are used: a variable with one URL replaces the file's list.
    let layerOfList = layers["rabbitmq.urls", default: .defaults]
    if option.path == "rabbitmq.url", layer.rawValue > layerOfList.rawValue { values.set("rabbitmq.urls", .texts([])) }
  }

  static func resolve(_ path: String, in folder: URL) -> String {
    path.hasPrefix("/") ? path : folder.appending(path: path).path(percentEncoded: false)
  }

  private mutating func unknown(_ path: String, origin: String) {
    let nearest = NearestName.find(path, in: ConfigurationOption.all.map(\.path) + ConfigurationOption.sections)
      .map { "; did you mean \($0)?" }
    problem(origin, ServiceAddress.hidden(path), "unknown key\(nearest ?? "")")
  }

  private mutating func problem(_ origin: String, _ path: String, _ text: String) {
    problems.append(ConfigurationError.Problem(origin: origin, path: path, text: text))
  }

  // MARK: Relations

  /// Options that are valid alone may conflict.
  private mutating func checkRelations() {
    let request = values.integer("apns.request_timeout_ms")
    let drain = values.integer("drain_timeout_s")
    if request > drain * 1000 {
      problem(
        "", "drain_timeout_s",
        "must be at least apns.request_timeout_ms (\(request) ms), not \(drain): else requests in flight cannot end"
      )
    }
    let redis = values.integer("redis.timeout_ms")
    if redis >= request {
      problem("", "redis.timeout_ms", "must be below apns.request_timeout_ms (\(request)), not \(redis)")
    }
    // Each lane has tables of this size, whether there are jobs or not.
    let cores = ProcessInfo.processInfo.activeProcessorCount
    let (lanes, prefetch) = (values.integer("lanes"), values.integer("rabbitmq.prefetch"))
    let lanesInUse = lanes == 0 ? cores : lanes
    if lanesInUse * prefetch > Configuration.unacknowledgedMaximum {
      let bound = Configuration.unacknowledgedMaximum / lanesInUse
      problem(
        "", "rabbitmq.prefetch",
        """
        must be at most \(bound) with \(lanes == 0 ? "a lane for each of \(cores) cores" : "lanes \(lanes)"), not \(prefetch): a \
        process holds at most \(Configuration.unacknowledgedMaximum) deliveries; lower it or lanes, and start more workers
        """)
    }
    // Each lane has a pool for each credential and environment.
    let pools = credentials.reduce(0) { $0 + $1.environments.count }
    let connections = values.integer("apns.connections_max")
    if lanesInUse * pools * connections > Configuration.connectionsMaximum {
      let bound = Configuration.connectionsMaximum / (lanesInUse * pools)
      problem(
        "", "apns.connections_max",
        """
        \(bound > 0 ? "must be at most \(bound)" : "has no value that fits") with \(credentials.count) credentials (each counts \
        once an environment) and \(lanes == 0 ? "a lane for each of \(cores) cores" : "lanes \(lanes)"), not \(connections): a process \
        opens at most \(Configuration.connectionsMaximum) connections; lower it or lanes, and start more workers
        """)
    }
    let delays = values.integers("retry.delays_s")
    let age = values.integer("retry.age_max_s")
    if let last = delays.last, last >= age {
      problem(
        "", "retry.age_max_s",
        "must be above the longest of retry.delays_s (\(last)), not \(age): that delay could never be used")
    }
    let tls = ["gateway.certificate_file", "gateway.private_key_file", "gateway.client_ca_file"].map {
      values.optionalText($0) != nil
    }
    if tls[0] != tls[1] {
      problem("", tls[0] ? "gateway.private_key_file" : "gateway.certificate_file", "is missing beside the other file")
    } else if tls[2], !tls[0] {
      problem("", "gateway.client_ca_file", "needs gateway.certificate_file: clients show certificates in TLS alone")
    }
    let burst = values.integer("limits.per_device_burst")
    let rate = values.number("limits.per_device_per_second")
    if burst > 0, RateLimit(burst: burst, perSecond: rate) == nil {
      problem(
        "", "limits.per_device_burst",
        "must refill within 30 days: \(burst) at limits.per_device_per_second \(rate) does not")
    }
  }
}
