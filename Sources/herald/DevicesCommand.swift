import ArgumentParser
import Foundation
import PushCore
import PushOperations
import PushStores

struct DevicesCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "devices",
    abstract: "Shows, forgets, exports, imports and counts the devices that registered.",
    discussion: """
      Devices come from the queue of registrations, or from an import. They are kept in Redis (registry.url) for the whole \
      fleet; a device belongs to one app and one environment.
      """,
    subcommands: [Show.self, Forget.self, Export.self, Import.self, Count.self])

  struct Show: ParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Prints what is known of devices.",
      discussion:
        "With --json a line is the registration that makes the device. Exits 1 where one of them is not known.")

    @OptionGroup var options: DeviceOptions

    @Option(help: "All devices of this user.")
    var user: String?

    @Flag(help: "Print JSON Lines instead of a table.")
    var json = false

    @Argument(help: "Ids of devices, or their tokens in lower case.")
    var devices: [String] = []

    func validate() throws {
      if devices.isEmpty == (user == nil) { throw ValidationError("name devices, or a user with --user") }
    }

    func run() throws {
      let scope = try options.scope()
      var entries: [DeviceRegistryClient.Entry] = []
      var unknown: [String] = []
      try options.common.withDevices { registry in
        if let user { try registry.devices(of: user, in: scope) { entries.append($0) } }
        for device in devices {
          if let entry = try registry.find(device, in: scope) { entries.append(entry) } else { unknown.append(device) }
        }
      }
      let table = DevicesTable(scope: scope, entries: entries)
      if !entries.isEmpty { for line in json ? table.jsonLines : table.lines { print(line) } }
      for device in unknown { Exit.note("\(TextTable.printable(device)) is not known in \(scope)") }
      if entries.isEmpty, let user { Exit.note("\(TextTable.printable(user)) has no device in \(scope)") }
      if !unknown.isEmpty || entries.isEmpty { throw ExitCode(1) }
    }
  }

  struct Forget: ParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Forgets devices, or a user with all devices, and what they registered until now.",
      discussion: """
        With --user in every app and environment, unless they are named. Registrations that are still on their way are \
        ignored for 24 hours, later ones are not.
        """)

    @OptionGroup var common: CommonOptions

    @Option(help: "The app's bundle id.")
    var app: String?

    @Option(help: "production or sandbox.")
    var environment: EnvironmentName?

    @Option(help: "The user whose devices are forgotten.")
    var user: String?

    @Flag(help: "Print JSON Lines instead of sentences.")
    var json = false

    @Argument(help: "Ids of devices.")
    var devices: [String] = []

    func validate() throws {
      if devices.isEmpty == (user == nil) { throw ValidationError("name devices, or a user with --user") }
      if !devices.isEmpty, app == nil || environment == nil {
        throw ValidationError("a device belongs to one app and environment: give --app and --environment")
      }
      for id in devices + (user.map { [$0] } ?? []) {
        if let rule = NameText.fault(id) { throw ValidationError("\"\(id.prefix(80))\" \(rule)") }
      }
      if let app { _ = try DeviceOptions.scope(app, .production) }
    }

    private func isMeant(_ scope: AppScope) -> Bool {
      (app == nil || scope.app == app) && (environment == nil || scope.environment == environment?.environment)
    }

    func run() throws {
      try common.withDevices { registry in
        var scopes: [AppScope]
        if let app, let environment {
          scopes = [try DeviceOptions.scope(app, environment)]
        } else {
          scopes = try registry.scopes().filter(isMeant)
        }
        var total = 0
        for scope in scopes {
          for subject in devices.map({ ForgottenSubject.device($0) }) + (user.map { [.user($0)] } ?? []) {
            let count = try registry.forget(subject, in: scope)
            total += count
            tell(subject, scope, count)
          }
        }
        if !json { Exit.note("\(total) devices forgotten") }
      }
    }

    private func tell(_ subject: ForgottenSubject, _ scope: AppScope, _ count: Int) {
      let (kind, id) =
        switch subject {
        case .device(let id): ("device", id)
        case .user(let id): ("user", id)
        }
      guard json else { return print("\(kind) \(TextTable.printable(id)): \(count) forgotten in \(scope)") }
      print(
        DevicesTable.json([
          (kind, id), ("app", scope.app), ("environment", scope.environment.name), ("forgotten", count),
        ]))
    }
  }

  struct Export: ParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Prints all devices as registrations, JSON Lines that import takes.",
      discussion: """
        The end says on standard error how to go on: --after with the cursor that is printed. Devices that register while \
        it runs may be in it or not.
        """)

    @OptionGroup var options: DeviceOptions

    @Option(help: "The cursor of an earlier export, which is continued.")
    var after: UInt32?

    @Option(help: "At most so many devices.")
    var limit: Int?

    func validate() throws {
      if let limit, limit < 1 { throw ValidationError("--limit must be at least 1, not \(limit)") }
    }

    func run() throws {
      let scope = try options.scope()
      var count = 0
      var cursor = after
      let output = FileHandle.standardOutput
      defer {
        Exit.note("\(count) devices exported" + (cursor.map { "; go on with --after \($0)" } ?? ""))
      }
      try options.common.withDevices { registry in
        _ = try registry.export(after: after, limit: limit, in: scope) { entry in
          output.write(Data(entry.record.registration(in: scope) + [UInt8(ascii: "\n")]))
          count += 1
          cursor = entry.ordinal
        }
      }
    }
  }

  struct Import: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "import", abstract: "Applies registrations of devices (JSON Lines) straight to Redis.",
      discussion: """
        Each line is a registration, as the queue takes it, and is applied in the same way: what is older than what is known \
        changes nothing, so an import can be repeated. Where Redis fails, the command says how to go on. Exits 1 unless all \
        lines were right.
        """)

    @OptionGroup var options: DeviceOptions

    @Option(help: "Pass over so many lines: the cursor of an import that was broken off.")
    var after = 0

    @Flag(help: "Print one JSON object instead of a sentence.")
    var json = false

    @Argument(help: "A file of registrations, one a line; - reads standard input.")
    var file = "-"

    func validate() throws {
      if after < 0 { throw ValidationError("--after must be at least 0, not \(after)") }
    }

    func run() throws {
      let scope = try options.scope()
      let input = try openInput(file)
      var progress = DeviceRegistryClient.Imported()
      defer { show(progress) }
      try options.common.withDevices { registry in
        do {
          try registry.importLines(input, in: scope, after: after, &progress) { line, text in
            Exit.note("line \(line): \(text)")
          }
        } catch {
          Exit.note("broken off; go on with --after \(progress.cursor)")
          throw error
        }
      }
      if progress.wrong > 0 { throw ExitCode(1) }
    }

    private func show(_ progress: DeviceRegistryClient.Imported) {
      if json {
        print(
          DevicesTable.json([
            ("read", progress.read), ("added", progress.added), ("changed", progress.changed),
            ("unchanged", progress.unchanged), ("forgotten", progress.forgotten), ("wrong", progress.wrong),
            ("cursor", progress.cursor),
          ]))
      } else {
        print(
          """
          \(progress.read) lines: \(progress.added) devices added, \(progress.changed) changed, \(progress.unchanged) known \
          already, \(progress.forgotten) forgotten since, \(progress.wrong) wrong
          """)
      }
    }
  }

  struct Count: ParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Prints how many devices are known, of one app and environment or of each.")

    @OptionGroup var common: CommonOptions

    @Option(help: "The app's bundle id.")
    var app: String?

    @Option(help: "production or sandbox.")
    var environment: EnvironmentName?

    @Flag(help: "Print JSON Lines instead of a table.")
    var json = false

    func validate() throws {
      if let app { _ = try DeviceOptions.scope(app, .production) }
    }

    func run() throws {
      var counts: [DeviceRegistryClient.Count] = []
      try common.withDevices { registry in
        if let app, let environment {
          counts = try registry.counts(try DeviceOptions.scope(app, environment))
        } else {
          counts = try registry.counts(nil).filter {
            (app == nil || $0.scope.app == app)
              && (environment == nil || $0.scope.environment == environment?.environment)
          }
        }
      }
      if json {
        for count in counts {
          print(
            DevicesTable.json([
              ("app", count.scope.app), ("environment", count.scope.environment.name), ("devices", count.devices),
              ("with_token", count.withToken),
            ]))
        }
      } else {
        let rows = counts.map { count in
          [count.scope.app, count.scope.environment.name, String(count.devices), String(count.withToken)]
        }
        for line in TextTable.lines([["APP", "ENVIRONMENT", "DEVICES", "WITH TOKEN"]] + rows) { print(line) }
      }
    }
  }
}

/// Which devices a command works on.
struct DeviceOptions: ParsableArguments {
  @OptionGroup var common: CommonOptions

  @Option(help: "The app's bundle id.")
  var app: String

  @Option(help: "production or sandbox.")
  var environment: EnvironmentName

  func validate() throws { _ = try scope() }

  func scope() throws -> AppScope { try DeviceOptions.scope(app, environment) }

  static func scope(_ app: String, _ environment: EnvironmentName) throws -> AppScope {
    guard let scope = AppScope(app: app, environment: environment.environment) else {
      throw ValidationError(
        "--app must be a bundle id (letters, digits, dots, hyphens, underscores), not \"\(app.prefix(80))\"")
    }
    return scope
  }
}

extension CommonOptions {
  /// Runs the work on the registry; a failure becomes a message and exit 1.
  func withDevices(_ work: (DeviceRegistryClient) throws -> Void) throws {
    let configuration = try load()
    do {
      let registry = try DeviceRegistryClient(configuration)
      defer { registry.close() }
      try work(registry)
    } catch let error as DeviceRegistryFailure {
      throw Exit.failure("\(error)")
    }
  }
}
