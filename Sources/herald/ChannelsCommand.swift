import ArgumentParser
import Foundation
import PushCore
import PushOperations

struct ChannelsCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "channels",
    abstract: "Creates, reads, deletes and lists the broadcast channels of an app, by id or by name.",
    discussion: """
      Asks APNs itself (apns.manage_production, apns.manage_sandbox), with the credential that serves the app. A channel \
      belongs to one app and one environment; an app may have 10,000 in each.
      """,
    subcommands: [
      Create.self, Read.self, Delete.self, List.self, Ensure.self, Reap.self, Reconcile.self,
    ])

  struct Create: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Creates a channel and prints its id, which APNs assigns.",
      discussion: """
        Storage none is for frequent updates, most-recent keeps the newest message up to 8 hours for devices that are \
        away. It cannot be changed later. A create whose answer is lost is not repeated: there may be a channel then, \
        which list shows.
        """)

    @OptionGroup var options: ChannelOptions

    @Option(help: "none or most-recent.")
    var storage: StorageName = .none

    func run() async throws {
      let answer = try await options.perform(.create(storage.policy))
      if case .created(let id) = answer.content { options.show([ChannelRow(id, storage.policy)], answer) }
    }
  }

  struct Read: AsyncParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Prints a channel's storage policy.")

    @OptionGroup var options: ChannelOptions

    @OptionGroup var channel: ChannelArgument

    func run() async throws {
      let id = try channel.id()
      let answer = try await options.perform(.read(id))
      if case .read(let storage) = answer.content { options.show([ChannelRow(id, storage)], answer) }
    }
  }

  struct Delete: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Deletes a channel for good; APNs never assigns its id again.",
      discussion: "Messages that it stored may still be delivered. Send nothing to it any more.")

    @OptionGroup var options: ChannelOptions

    @OptionGroup var channel: ChannelArgument

    func run() async throws {
      let id = try channel.id()
      let answer = try await options.perform(.delete(id))
      options.forget(id)
      if options.json {
        options.show([ChannelRow(id, nil, isDeleted: true)], answer)
      } else {
        print("channel \(id) is deleted")
      }
    }
  }

  struct List: AsyncParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Prints the ids of all channels.")

    @OptionGroup var options: ChannelOptions

    func run() async throws {
      let answer = try await options.perform(.list)
      guard case .listed(let ids) = answer.content else { return }
      let names = options.names()
      options.show(ids.map { ChannelRow($0, nil, name: names[$0]) }, answer)
      if !options.json { Exit.note("\(ids.count) of \(ChannelLimit.apple) channels") }
    }
  }
}

/// Options of all channel commands.
struct ChannelOptions: ParsableArguments {
  @OptionGroup var common: CommonOptions

  @Option(help: "The app's bundle id.")
  var app: String

  @Option(help: "production or sandbox.")
  var environment: EnvironmentName

  @Option(help: "The credential to use, by its name. Default: the first that serves the app there.")
  var credential: String?

  @Option(help: "The apns-request-id to send: a UUID. Default: a random one.")
  var requestID: String?

  @Flag(help: "Print JSON Lines instead of a table.")
  var json = false

  func validate() throws {
    _ = try scope()
    _ = try checkedRequestID()
  }

  func scope() throws -> AppScope {
    guard let scope = AppScope(app: app, environment: environment.environment) else {
      throw ValidationError(
        "--app must be a bundle id (letters, digits, dots, hyphens, underscores), not \"\(app.prefix(80))\"")
    }
    return scope
  }

  private func checkedRequestID() throws -> UUIDValue? {
    guard let requestID else { return nil }
    guard let value = UUIDValue(requestID.lowercased().utf8.span) else {
      throw ValidationError("--request-id must be a UUID, not \"\(requestID.prefix(80))\"")
    }
    return value
  }

  /// Sends a request to APNs; a refusal becomes a message and exit 1, a missing credential exit 78.
  func perform(_ operation: ChannelRequest.Operation) async throws -> ChannelAnswer {
    let (configuration, logger) = try common.begin()
    let access: FleetChannelClient
    do {
      access = try FleetChannelClient(configuration, logger: logger)
    } catch {
      throw Exit.configuration("\(error)")
    }
    defer { access.close() }
    let request = ChannelRequest(
      operation, in: try scope(), requestID: try checkedRequestID(), credential: credential)
    do throws(ChannelFailure) {
      return try await access.perform(request)
    } catch {
      if case .noCredential = error.kind { throw Exit.configuration("\(error)") }
      throw Exit.failure("\(error)")
    }
  }

  func show(_ rows: [ChannelRow], _ answer: ChannelAnswer) {
    let table = ChannelTable(app: app, environment: environment.rawValue, requestID: answer.requestID.text, rows: rows)
    for line in json ? table.jsonLines : table.lines { print(line) }
  }
}

/// The channel that a command works on.
struct ChannelArgument: ParsableArguments {
  @Option(help: "The channel's id, as APNs gave it.")
  var channel: String

  func validate() throws {
    _ = try id()
  }

  func id() throws -> ChannelID {
    guard let id = ChannelID(text: channel) else {
      throw ValidationError("--channel must be a channel id, base64, not \"\(channel.prefix(80))\"")
    }
    return id
  }
}

enum StorageName: String, ExpressibleByArgument, CaseIterable {
  case none
  case mostRecent = "most-recent"

  var policy: StoragePolicy {
    switch self {
    case .none: .none
    case .mostRecent: .mostRecent
    }
  }
}
