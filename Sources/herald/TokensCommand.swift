import ArgumentParser
import Foundation
import PushCore
import PushOperations

struct TokensCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "tokens",
    abstract: "Shows, forgets and imports dead-token marks.",
    discussion: """
      A token that APNs called unregistered is marked, and jobs to it end as unregistered without being sent, unless \
      their token_registered_at is later. Redis keeps only a hash of each token, so marks cannot be listed.
      """,
    subcommands: [Show.self, Forget.self, Import.self])

  /// Options of all three.
  struct Options: ParsableArguments {
    @OptionGroup var common: CommonOptions

    @Option(help: "The app's bundle id.")
    var app: String

    @Option(help: "production or sandbox.")
    var environment: EnvironmentName

    @Flag(help: "Print JSON Lines instead of a table.")
    var json = false

    @Argument(help: "Device tokens; - reads them from standard input, one a line.")
    var tokens: [String]

    /// The tokens as jobs carry them.
    func checkedTokens() throws -> [String] {
      var texts: [String] = []
      for token in tokens {
        if token == "-" {
          while let line = readLine() {
            let text = line.trimmingCharacters(in: .whitespaces)
            if !text.isEmpty { texts.append(text) }
          }
        } else {
          texts.append(token)
        }
      }
      do {
        return try texts.map(DeadTokens.checked)
      } catch {
        throw ValidationError("\(error)")
      }
    }

    /// Runs the work on a connection and prints the marks; with `isComplete`, also tokens without one.
    func run(isComplete: Bool, _ work: (DeadTokens, [String]) throws -> [DeadTokens.Mark]) throws {
      let tokens = try checkedTokens()
      let configuration = try common.load()
      let marks: [DeadTokens.Mark]
      do {
        let access = try DeadTokens(configuration, app: app, environment: environment.environment)
        defer { access.close() }
        marks = try work(access, tokens)
      } catch {
        throw Exit.failure("\(error)")
      }
      let table = TokensTable(app: app, marks: marks, unmarked: isComplete ? tokens : [])
      for line in json ? try table.jsonLines() : table.lines { print(line) }
    }
  }

  struct Show: ParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Prints the marks of tokens.")

    @OptionGroup var options: Options

    func run() throws {
      try options.run(isComplete: true) { access, tokens in try access.marks(of: tokens) }
    }
  }

  struct Forget: ParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Removes marks and prints them: Herald sends to these tokens again.")

    @OptionGroup var options: Options

    func run() throws {
      try options.run(isComplete: false) { access, tokens in try access.forget(tokens) }
    }
  }

  struct Import: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "import", abstract: "Marks tokens as dead; of two marks of a token the later one stays.")

    @OptionGroup var options: Options

    @Option(help: "The topic that the tokens belong to. Default: the app's bundle id, which is that of alerts.")
    var topic: String?

    @Option(help: "Since when they are dead, Unix milliseconds. Default: now.")
    var unregisteredAt: Int64?

    func validate() throws {
      if let unregisteredAt, unregisteredAt < 1 { throw ValidationError("--unregistered-at must be at least 1") }
    }

    func run() throws {
      let mark = unregisteredAt ?? Int64(Date().timeIntervalSince1970 * 1000)
      try options.run(isComplete: false) { access, tokens in
        try access.importMarks(tokens, topic: topic, unregisteredAt: mark)
      }
    }
  }
}

enum EnvironmentName: String, ExpressibleByArgument, CaseIterable {
  case production, sandbox

  var environment: APNsEnvironment {
    switch self {
    case .production: .production
    case .sandbox: .sandbox
    }
  }
}
