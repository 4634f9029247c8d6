import ArgumentParser
import Foundation
import Logging
import PushCore
import PushOperations
import PushStores

/// The channel commands that need the registry in Redis.
extension ChannelsCommand {
  struct Ensure: ParsableCommand {
    static let configuration = CommandConfiguration(
      abstract:
        "Prints the channel of a name, which is created where there is none: only once, even if several ask at the same time.",
      discussion: """
        The name is yours, such as an event's id. Workers and commands that share a Redis share the names. A create whose \
        answer was lost is looked into before another one is made; that takes up to half a minute.
        """)

    @OptionGroup var options: ChannelOptions

    @Option(help: "none or most-recent.")
    var storage: StorageName = .none

    @Argument(help: "The channel's name: 1 to 128 bytes without control characters.")
    var name: String

    func validate() throws {
      _ = try checkedName()
    }

    private func checkedName() throws -> ChannelName {
      guard let name = ChannelName(name) else { throw ValidationError("the name \(ChannelName.rule)") }
      return name
    }

    func run() throws {
      let scope = try options.scope()
      let name = try checkedName()
      let result = try options.keep { registry in
        try registry.ensure(name, in: scope, storage.policy, credential: options.credential)
      }
      let line = KeptChannel(
        channel: result.id.text, name: name.text, app: options.app, environment: options.environment.rawValue,
        storage: (result.entry.storage ?? storage.policy).name, created: result.origin == .created, usedAt: nil,
        deleted: nil, error: nil)
      print(options.json ? try line.json() : result.id.text)
      if !options.json, result.origin != .found { Exit.note("\"\(name)\" is a new channel") }
    }
  }

  struct Reap: ParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Deletes named channels that nobody sent to for a while.",
      discussion: """
        Counts from a channel's last broadcast by Herald, or from its creation. Channels without a name in the registry \
        are somebody else's, and stay. So do those that Herald made for activities, for 12 hours; one that a start names itself \
        does not.
        """)

    @OptionGroup var options: ChannelOptions

    @Option(help: "How long unused: a number and s, m, h or d, at least 10m; such as 12h or 30d.")
    var unusedFor: String

    @Flag(help: "Only say what would be deleted.")
    var dryRun = false

    func validate() throws {
      _ = try seconds()
    }

    private func seconds() throws -> Int64 {
      let units: [Character: Int64] = ["s": 1, "m": 60, "h": 3600, "d": 86_400]
      guard let unit = unusedFor.last.flatMap({ units[$0] }), let count = Int64(unusedFor.dropLast()), count > 0,
        count < 1_000_000
      else { throw ValidationError("--unused-for must be a number and s, m, h or d, not \"\(unusedFor.prefix(40))\"") }
      guard count * unit >= ChannelRegistryClient.reapSecondsMinimum else {
        throw ValidationError("--unused-for must be at least 10m: the last use is stored about once a minute")
      }
      return count * unit
    }

    func run() throws {
      let scope = try options.scope()
      let seconds = try seconds()
      var count = 0
      var failures = 0
      var inUse = 0
      try options.keep { registry in
        try registry.reap(scope, unusedForSeconds: seconds, credential: options.credential, isDryRun: dryRun) {
          reaped in
          guard !reaped.isInUse else {
            inUse += 1
            return
          }
          count += 1
          if reaped.failure != nil { failures += 1 }
          let line = KeptChannel(
            channel: reaped.id.text, name: reaped.name.text, app: options.app,
            environment: options.environment.rawValue, storage: nil, created: nil, usedAt: reaped.usedAt,
            deleted: !dryRun && reaped.failure == nil, error: reaped.failure)
          if options.json {
            if let text = try? line.json() { print(text) }
          } else {
            let used = reaped.usedAt.map { "last used \(Self.date($0))" } ?? "never used"
            let made = "made \(Self.date(reaped.createdAt / 1000))"
            print("\(reaped.id)  \(reaped.name)  \(used), \(made)" + (reaped.failure.map { ": \($0)" } ?? ""))
          }
        }
      }
      let verb = dryRun ? "would be deleted" : "deleted"
      let kept = inUse > 0 ? "; in use by activities: \(inUse)" : ""
      Exit.note("\(count - failures) channels \(verb)" + (failures > 0 ? ", \(failures) could not be" : "") + kept)
      if failures > 0 { throw ExitCode(1) }
    }

    private static func date(_ unixSeconds: Int64) -> String {
      Date(timeIntervalSince1970: TimeInterval(unixSeconds)).formatted(.iso8601)
    }
  }

  struct Reconcile: ParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Compares the names in Redis with the channels at APNs, and repairs the names.",
      discussion: """
        Forgets names whose channel is gone, remembers channels that Herald did not make (without a name), and looks into \
        creates that were not ended. It makes and deletes no channel.
        """)

    @OptionGroup var options: ChannelOptions

    @Flag(help: "Only say what would be done.")
    var dryRun = false

    func run() throws {
      let scope = try options.scope()
      let found = try options.keep { registry in
        try registry.reconcile(scope, credential: options.credential, isDryRun: dryRun)
      }
      if options.json {
        print(try Report(found, isDryRun: dryRun).json())
        return
      }
      for (id, name) in found.gone { print("gone        \(id)  \(name?.text ?? "")") }
      for id in found.unknown { print("unknown     \(id)") }
      for (name, id) in found.unfinished { print("unfinished  \(id?.text ?? "(nothing was made)")  \(name)") }
      for (id, name) in found.restored { print("restored    \(id)  \(name)") }
      Exit.note(
        """
        \(found.count) of \(ChannelLimit.apple) channels; \(found.gone.count) gone, \(found.unknown.count) unknown, \
        \(found.unfinished.count) unfinished, \(found.restored.count) restored\(dryRun ? " (nothing was changed)" : "")
        """)
    }

    private struct Report: Encodable {
      struct Named: Encodable {
        let channel: String?
        let name: String?
      }

      let count: Int
      let limit: Int
      let dryRun: Bool
      let gone: [Named]
      let unknown: [String]
      let unfinished: [Named]
      let restored: [Named]

      init(_ found: ChannelRegistryClient.Reconciliation, isDryRun: Bool) {
        count = found.count
        limit = ChannelLimit.apple
        dryRun = isDryRun
        gone = found.gone.map { Named(channel: $0.id.text, name: $0.name?.text) }
        unknown = found.unknown.map(\.text)
        unfinished = found.unfinished.map { Named(channel: $0.adopted?.text, name: $0.name.text) }
        restored = found.restored.map { Named(channel: $0.id.text, name: $0.name.text) }
      }

      func json() throws -> String { try jsonLine(self) }
    }
  }
}

/// A channel of the registry, for `--json`.
private struct KeptChannel: Encodable {
  let channel: String
  let name: String
  let app: String
  let environment: String
  let storage: String?
  let created: Bool?
  /// Unix seconds.
  let usedAt: Int64?
  let deleted: Bool?
  let error: String?

  func json() throws -> String { try jsonLine(self) }
}

private func jsonLine(_ value: some Encodable) throws -> String {
  let encoder = JSONEncoder()
  encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
  encoder.keyEncodingStrategy = .convertToSnakeCase
  return String(decoding: try encoder.encode(value), as: UTF8.self)
}

extension ChannelOptions {
  /// Runs the work on the registry; a failure becomes a message and exit 1, a missing credential exit 78.
  func keep<Value>(_ work: (ChannelRegistryClient) throws -> Value) throws -> Value {
    let (configuration, logger) = try common.begin()
    let registry: ChannelRegistryClient
    do {
      registry = try ChannelRegistryClient(configuration, logger: logger)
    } catch {
      throw Exit.configuration("\(error)")
    }
    defer { registry.close() }
    do {
      return try work(registry)
    } catch let error as ChannelRegistryFailure {
      if case .apns(let failure) = error, case .noCredential = failure.kind { throw Exit.configuration("\(error)") }
      throw Exit.failure("\(error)")
    }
  }

  /// The names of channels that Redis knows. If it does not answer, the list comes without them, and a note says so.
  func names() -> [ChannelID: ChannelName] {
    do {
      let snapshot = try aside { try $0.snapshot(try scope()) }
      return Dictionary(snapshot.names.map { ($1, $0) }) { first, _ in first }
    } catch {
      Exit.note("the channels' names are left out: \(error)")
      return [:]
    }
  }

  /// Removes a deleted channel's name, so that an ensure creates another channel.
  func forget(_ id: ChannelID) {
    do {
      try aside { try $0.forget(id, in: try scope()) }
    } catch {
      Exit.note(
        "the channel is deleted, and its name, if it has one, is not forgotten (herald channels reconcile): \(error)")
    }
  }

  /// Additional work on the registry in a command that does not depend on it.
  private func aside<Value>(_ work: (ChannelRegistryClient) throws -> Value) throws -> Value {
    let registry = try ChannelRegistryClient(
      try common.reader(), logger: Logger(label: "herald"), redisTimeoutMilliseconds: 1_000)
    defer { registry.close() }
    return try work(registry)
  }
}
