import ArgumentParser
import Foundation
import PushCore
import PushOperations

struct KeysCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "keys",
    abstract: "Creates, lists and revokes API keys of the gateway.",
    discussion: """
      Only a hash of a key is kept: in gateway.keys_file, or in Redis. Several keys of an app are valid at a time, so one \
      can be replaced without a gap. Gateways follow a change within two seconds.
      """,
    subcommands: [Create.self, List.self, Revoke.self])

  struct Create: ParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Prints a new key, once.",
      discussion: """
        send takes jobs, register devices and users, read progress, activities and outcomes; admin may all of this, and \
        segments too.
        """)

    @OptionGroup var common: CommonOptions

    @Option(help: "The app's bundle id. Without it, requests name the app: only with the scope admin.")
    var app: String?

    @Option(help: "production or sandbox. Without it, requests name the environment.")
    var environment: EnvironmentName?

    @Option(help: "send, register, read, admin: some of them, with commas between.")
    var scope = "send"

    @Option(help: "Requests a minute that each gateway takes of it. Default: no limit.")
    var rate: Int?

    @Flag(help: "Print JSON instead of the key alone.")
    var json = false

    func validate() throws {
      if let app, AppScope(app: app, environment: .production) == nil {
        throw ValidationError("--app must be a bundle id (letters, digits, dots, hyphens, underscores)")
      }
      if let rate, !(1...APIKey.rateMaximum).contains(rate) {
        throw ValidationError("--rate must be from 1 to \(APIKey.rateMaximum), not \(rate)")
      }
      if app == nil, try !scopes().contains(.admin) {
        throw ValidationError("a key without --app needs --scope admin")
      }
    }

    private func scopes() throws -> Set<KeyScope> {
      let words = scope.split(separator: ",", omittingEmptySubsequences: false).map {
        $0.trimmingCharacters(in: .whitespaces)
      }
      return Set(
        try words.map { word in
          guard let scope = KeyScope(rawValue: word) else {
            let known = KeyScope.allCases.map(\.rawValue).joined(separator: ", ")
            throw ValidationError("--scope takes \(known), not \"\(word.prefix(40))\"")
          }
          return scope
        })
    }

    func run() throws {
      let configuration = try common.load()
      let scopes = try scopes()
      let key: String
      do {
        key = try APIKeys(configuration).create(
          app: app, environment: environment?.environment, scopes: scopes, rate: rate,
          now: Int64(Date().timeIntervalSince1970 * 1000))
      } catch {
        throw Exit.failure("\(error)")
      }
      guard json, let id = APIKeyText(key)?.id else { return print(key) }
      print("{\"id\":\"\(id)\",\"key\":\"\(key)\"}")
    }
  }

  struct List: ParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Prints the keys without what is secret of them.")

    @OptionGroup var common: CommonOptions

    @Option(help: "Only this app's.")
    var app: String?

    @Flag(help: "Print JSON Lines instead of a table.")
    var json = false

    func run() throws {
      let configuration = try common.load()
      do {
        let (keys, unreadable) = try APIKeys(configuration).list(app: app)
        let table = KeysTable(keys)
        for line in json ? try table.jsonLines() : table.lines { print(line) }
        if let unreadable { Exit.note(unreadable) }
      } catch {
        throw Exit.failure("\(error)")
      }
    }
  }

  struct Revoke: ParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Makes a key invalid for good.",
      discussion: """
        It waits until all gateways that ran within a day have read that, for six seconds at most. Exits 1 where there is \
        no such key, or where a gateway has not read it: that one is named, and may still take the key.
        """)

    @OptionGroup var common: CommonOptions

    @Argument(help: "The key's id, or the key itself.")
    var key: String

    @Option(help: "A gateway, as named by this command, that was killed and no longer runs. Several times for several.")
    var gone: [String] = []

    func run() throws {
      let configuration = try common.load()
      do {
        let revocation = try APIKeys(configuration).revoke(key, gone: gone)
        let done = revocation.wasKnown ? "revoked" : "there is no such key (any more)"
        let taken = "taken by \(KeysTable.count(revocation.taken))"
        guard revocation.missing.isEmpty else {
          let gateways = revocation.missing.map { "\n\($0)" }.joined()
          throw Exit.failure(
            """
            \(done), and \(taken), but these have not read it, and may still take the key; mend each, and ask again:\(gateways)
            """)
        }
        let text = "\(done); \(revocation.taken == 0 ? "no gateway is running" : taken)"
        guard revocation.wasKnown else { throw Exit.failure(text) }
        print(text)
      } catch let exit as ExitCode {
        throw exit
      } catch {
        throw Exit.failure("\(error)")
      }
    }
  }
}
