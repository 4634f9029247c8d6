import APNsSimulator
import Foundation
import PushChannels
import PushNotifications
import Testing

/// The library `PushChannels` as other packages use it, against the simulator: this target sees public names only.
@Suite(.timeLimit(.minutes(2)))
struct ChannelLibraryTests {
  private static let app = "com.example.app"

  /// A simulator and a manager for it, in a folder that is removed with the test.
  private final class World {
    let simulator: Simulator
    let manager: ChannelManager
    private let folder = FileManager.default.temporaryDirectory.path + "/herald-channels-" + UUID().uuidString

    init(isSandbox: Bool = false) throws {
      let key = try SimulatorCredential()
      var options = SimulatorOptions()
      options.isSandbox = isSandbox
      options.security = .ownAuthority(folder: folder)
      options.keys = [try key.registration()]
      simulator = try Simulator(options)
      let ports = try simulator.start()
      var client = ChannelManagerOptions()
      client.production = "https://localhost:\(ports.managePort ?? 0)"
      client.sandbox = client.production
      client.authorityFile = ports.authorityFile
      manager = try ChannelManager(
        .signingKey(teamID: key.team, keyID: key.key, file: try key.write(to: folder)),
        apps: [ChannelLibraryTests.app], options: client)
    }

    deinit {
      manager.close()
      simulator.stop()
      try? FileManager.default.removeItem(atPath: folder)
    }
  }

  /// The example in the documentation of `ChannelManager`, with a simulator's manager.
  private func example(_ manager: ChannelManager) async throws -> Job {
    struct Score: Encodable, Sendable {
      var home: Int
      var away: Int
    }

    let channel = try await manager.create(of: "com.example.app", storage: .mostRecent).value
    let goal = LiveActivityUpdate(Score(home: 1, away: 0), expiration: .at(Date(timeIntervalSinceNow: 3600)))
    let job = try Job(broadcasting: goal, to: channel)
    print(job.line)

    do throws(ChannelError) {
      try await manager.delete(channel)
    } catch {
      guard error.isUnknownChannel else { throw error }
    }
    return job
  }

  /// Never runs: it only has to compile.
  private func madeForApple() throws -> ChannelManager {
    let manager = try ChannelManager(
      .signingKey(teamID: "DEF123GHIJ", keyID: "ABC123DEFG", file: "AuthKey.p8"), apps: ["com.example.app"])
    return manager
  }

  @Test func theExampleIsCompiledHere() async throws {
    let world = try World()
    let job = try await example(world.manager)
    #expect(job.line.contains(#""channel":""#) && job.line.contains(#""app":"com.example.app""#))
    #expect(world.simulator.ledger.requests == 2)
    #expect(throws: ChannelError.self) { try madeForApple() }
    let root = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../..")
    let here = try String(contentsOf: URL(filePath: #filePath), encoding: .utf8)
    let known = Set(here.split(separator: "\n").map { $0.trimmingCharacters(in: .whitespaces) })
    for (file, begin, end) in [
      ("Sources/PushChannels/ChannelManager.swift", "/// ```swift", "/// ```"),
      ("docs/producers.md", "import PushChannels", "```"),
    ] {
      let source = try String(contentsOf: root.appending(path: file), encoding: .utf8)
      let example = source.split(separator: "\n").map(String.init).drop { $0 != begin }.dropFirst()
        .prefix { $0 != end }.map { $0.replacing("///", with: "").trimmingCharacters(in: .whitespaces) }
      #expect(example.count >= 5)
      for line in example { #expect(line.isEmpty || known.contains(line), "not compiled here: \(line)") }
    }
  }

  @Test(arguments: [Job.Environment.production, .sandbox])
  func channelsAreTargets(_ environment: Job.Environment) async throws {
    let world = try World(isSandbox: environment == .sandbox)
    let own = UUID()
    let created = try await world.manager.create(
      of: ChannelLibraryTests.app, environment: environment, storage: .mostRecent, requestID: own)
    #expect(created.requestID == own)
    let channel = created.value
    #expect(channel.app == ChannelLibraryTests.app && channel.environment == environment)
    #expect(try await world.manager.read(channel).value == .mostRecent)
    let listed = try await world.manager.list(of: ChannelLibraryTests.app, environment: environment).value
    #expect(listed == [channel])
    let job = try Job(broadcasting: LiveActivityEnd(dismissal: .immediately), to: listed[0])
    #expect(job.line.contains("\"environment\":\"\(environment.rawValue)\""))
    struct Match: Encodable, Sendable { var home = "Ajax" }
    let start = LiveActivityStart(
      Match(), state: Match(), alert: ActivityAlert(title: "Kick-off", body: "Now"), updates: .channel(channel))
    #expect(
      String(decoding: try start.payload(), as: UTF8.self).replacing("\\/", with: "/").contains(
        "\"input-push-channel\":\"\(channel.id.text)\""))
    try await world.manager.delete(channel)
    #expect(try await world.manager.list(of: ChannelLibraryTests.app, environment: environment).value.isEmpty)
  }

  @Test func errorsAreTyped() async throws {
    let world = try World()
    let id = try ChannelID("dHN0LXNyY2gtY2hubA==")
    let unknown = BroadcastChannel(id, of: ChannelLibraryTests.app)
    let gone = try #require(await error { try await world.manager.read(unknown) })
    #expect(gone.kind == .refused(status: 404, reason: .channelNotRegistered) && gone.isUnknownChannel)
    #expect(gone.requestID != nil && !gone.isTemporary && !gone.isAmbiguous)
    let stranger = try #require(await error { try await world.manager.list(of: "com.example.two") })
    #expect(stranger.kind == .notServed && stranger.description.contains("not made for that app"))
    let wrong = try #require(await error { try await world.manager.list(of: "a b") })
    #expect(wrong.kind == .invalid && wrong.description.contains("bundle id"))

    for (fault, kind, isTemporary) in [
      ("status=400,reason=CannotCreateChannelConfig", .refused(status: 400, reason: .cannotCreateChannelConfig), false),
      ("status=429,reason=TooManyRequests", .refused(status: 429, reason: .tooManyRequests), true),
      ("status=403,reason=New", .refused(status: 403, reason: ChannelReason(rawValue: "New")), false),
      ("drop", .unanswered, true),
    ] as [(String, ChannelError.Kind, Bool)] {
      try world.simulator.add(fault: fault)
      let failed = try #require(await error { try await world.manager.create(of: ChannelLibraryTests.app) })
      #expect(failed.kind == kind && failed.isTemporary == isTemporary && failed.isAmbiguous == (fault == "drop"))
      #expect(failed.isLimitReached == fault.contains("CannotCreate"))
      world.simulator.removeAllFaults()
    }
    world.manager.close()
    #expect(await error { try await world.manager.create(of: ChannelLibraryTests.app) }?.kind == .closed)
  }

  @Test func whatIsGivenWrongIsSaid() throws {
    var options = ChannelManagerOptions()
    options.production = "ftp://x"
    let key = ChannelCredential.signingKey(teamID: "T", keyID: "K", file: "/none.p8")
    for (options, text) in [(options, "must be https://host:port"), (ChannelManagerOptions(), "/none.p8")] {
      do {
        _ = try ChannelManager(key, apps: ["com.example.app"], options: options)
        Issue.record("it was made")
      } catch {
        #expect(error.kind == .invalid && error.description.contains(text), "\(error)")
      }
    }
  }

  /// The `ChannelError` of this call; nil: none, or another error.
  private func error<Value>(_ body: () async throws -> Value) async -> ChannelError? {
    do {
      _ = try await body()
      return nil
    } catch {
      return error as? ChannelError
    }
  }
}
