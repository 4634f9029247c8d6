import APNsSimulator
import PushCore
import PushIO
import TestSupport
import Testing

/// The client against the strict simulator: its requests, the answers that it understands, and every refusal as a typed error.
@Suite(.timeLimit(.minutes(2)))
struct ChannelClientTests {
  static let unknown = ChannelID(text: "dHN0LXNyY2gtY2hubA==")!

  @Test(arguments: ChannelWorld.Kind.allCases, APNsEnvironment.allCases)
  func aChannelsLife(_ kind: ChannelWorld.Kind, _ environment: APNsEnvironment) async throws {
    let world = try ChannelWorld(kind, environment: environment)
    for storage in StoragePolicy.allCases {
      guard case .created(let id) = try await world.perform(.create(storage), in: environment).content else {
        throw TestFailure("a channel is created")
      }
      #expect(try await world.perform(.read(id), in: environment).content == .read(storage))
      #expect(try await world.perform(.list, in: environment).content == .listed([id]))
      #expect(try await world.perform(.delete(id), in: environment).content == .deleted)
      #expect(try await world.perform(.list, in: environment).content == .listed([]))
    }
    let ledger = world.simulator.ledger
    #expect(ledger.answers == ["201": 2, "200": 6, "204": 2])
    #expect(ledger.connectionsOpened == 1 && ledger.accepted == 0)
    #expect(ledger.connections.allSatisfy { $0.streamsOverLimit == 0 && $0.tokenChanges <= 1 })
  }

  @Test func requestIDsAreSentAndComeBack() async throws {
    let world = try ChannelWorld()
    let own = UUIDValue(high: 0x2288_CF3F_70D8_46A6, low: 0x97D7_DD5D_0086_7127)
    #expect(try await world.perform(.list, requestID: own).requestID == own)
    let drawn = try await world.perform(.list).requestID
    let other = try await world.perform(.list).requestID
    #expect(drawn != other)
    let seen = world.simulator.readLedger { $0.entries.map(\.apnsID) }
    #expect(seen == [own.text, drawn.text, other.text])
    let failure = await world.failure(of: .read(ChannelClientTests.unknown))
    #expect(failure?.request.requestID?.text == world.simulator.readLedger { $0.entries.last?.apnsID })
  }

  // MARK: - What the simulator refuses by its own rules

  @Test func unknownChannels() async throws {
    let world = try ChannelWorld()
    let id = try await world.create()
    _ = try await world.perform(.delete(id))
    for operation in [ChannelRequest.Operation.read(id), .delete(id), .read(ChannelClientTests.unknown)] {
      let failure = try #require(await world.failure(of: operation))
      #expect(failure.kind == .refused(status: 404, reason: .channelNotRegistered))
      #expect(failure.isUnknownChannel && !failure.isAmbiguous && !failure.isTemporary)
      #expect(failure.description.contains("it was deleted, or belongs to another app or environment"))
    }
  }

  @Test func anIDThatIsNoBase64() async throws {
    let world = try ChannelWorld()
    // In the base64 alphabet, so that our own check passes it, and of a length that base64 never has.
    let id = try #require(ChannelID(text: "AAAAA"))
    let kind = ChannelFailure.Kind.refused(status: 400, reason: .badChannelId)
    #expect(await world.failure(of: .read(id))?.kind == kind)
    #expect(await world.failure(of: .delete(id))?.kind == kind)
  }

  @Test func featureNotEnabled() async throws {
    let world = try ChannelWorld()
    world.simulator.configure { $0.channels.disabledApps = [ChannelWorld.app] }
    let failure = try #require(await world.failure(of: .create(.none)))
    #expect(failure.kind == .refused(status: 400, reason: .featureNotEnabled))
    #expect(failure.description.contains("enable Broadcast Capability for com.example.app") && !failure.isTemporary)
    #expect(world.simulator.ledger.requests == 1, "somebody has to change something first")
  }

  @Test func aTopicsSuffixIsNoApp() async throws {
    let world = try ChannelWorld(apps: [ChannelWorld.app + ".voip"])
    let failure = await world.failure(of: .list, app: ChannelWorld.app + ".voip")
    #expect(failure?.kind == .refused(status: 400, reason: .badRequestParams))
  }

  @Test func keysThatAreNotForIt() async throws {
    let world = try ChannelWorld()
    for (change, reason) in [
      ({ $0.topics = ["com.example.other"] }, .topicMismatch),
      ({ $0.isForSandbox = true }, .badEnvironmentKeyIdInToken),
      ({ $0.team = "TEAM000009" }, .invalidProviderToken),
    ] as [((inout RegisteredKey) -> Void, APNsReason)] {
      world.simulator.configure { service in
        guard var key = service.tokens.keys["KEY0000001"] else { return }
        (key.topics, key.isForSandbox, key.team) = (nil, nil, "TEAM000001")
        change(&key)
        service.tokens.register(key)
      }
      let failure = await world.failure(of: .create(.none))
      #expect(failure?.kind == .refused(status: 403, reason: reason))
      #expect(failure?.isTemporary == false)
    }
    #expect(world.existing() == 0 && world.simulator.ledger.requests == 3)
  }

  @Test func aCertificateOfAnotherApp() async throws {
    let world = try ChannelWorld(
      .certificate, apps: ["com.example.two"], topics: ["com.example.two.push-type.liveactivity"])
    let failure = await world.failure(of: .list, app: "com.example.two")
    #expect(failure?.kind == .refused(status: 400, reason: .topicDisallowed))
  }

  @Test func theLimit() async throws {
    let world = try ChannelWorld()
    world.simulator.configure { $0.channels.channelsMaximum = 2 }
    let first = try await world.create()
    _ = try await world.create()
    let failure = try #require(await world.failure(of: .create(.none)))
    #expect(failure.kind == .refused(status: 400, reason: .cannotCreateChannelConfig) && failure.isLimitReached)
    #expect(failure.description.contains("delete those whose events are over"))
    _ = try await world.perform(.delete(first))
    _ = try await world.create()
    #expect(world.existing() == 2)
  }

  // MARK: - Every status and reason

  /// Apple's pages on broadcasts and channels, and the answers that any request may get.
  static let refusals: [(Int, APNsReason)] = [
    (400, .missingChannelId), (400, .badChannelId), (400, .badRequestParams), (400, .badRequestPayload),
    (400, .missingPushType), (400, .invalidPushType), (400, .missingChannelQueueSize), (400, .badMessageId),
    (400, .duplicateHeaders), (400, .channelNotRegistered), (404, .channelNotRegistered),
    (400, .cannotCreateChannelConfig), (400, .featureNotEnabled), (400, .topicDisallowed), (403, .topicMismatch),
    (403, .forbidden), (403, .invalidProviderToken), (403, .missingProviderToken), (403, .badCertificate),
    (403, .badCertificateEnvironment), (403, .badEnvironmentKeyIdInToken), (403, .badEnvironmentKeyInToken),
    (404, .badPath), (405, .methodNotAllowed), (413, .payloadTooLarge), (429, .tooManyRequests),
    (429, .tooManyProviderTokenUpdates), (500, .internalServerError), (503, .serviceUnavailable),
    (403, .other("SomethingNew")), (599, .other("SomethingWorse")),
  ]

  @Test func everyRefusalIsTyped() async throws {
    let world = try ChannelWorld()
    for (status, reason) in ChannelClientTests.refusals {
      let fault = try world.simulator.add(fault: "status=\(status),reason=\(reason.name)")
      let before = world.simulator.ledger.requests
      let failure = try #require(await world.failure(of: .create(.none)))
      #expect(failure.kind == .refused(status: UInt16(status), reason: reason))
      #expect(failure.description.contains("answered \(status) \(reason.name) (apns-request-id "))
      #expect(failure.advice != nil || reason.name.hasPrefix("Something"))
      #expect(world.simulator.ledger.requests == before + 1, "a create is sent once: \(reason)")
      world.simulator.remove(fault: fault)
    }
    let fault = try world.simulator.add(fault: "status=502,reason=x,body=missing")
    #expect(await world.failure(of: .create(.none))?.kind == .refused(status: 502, reason: nil))
    world.simulator.remove(fault: fault)
    #expect(try await world.list().isEmpty, "the client goes on, and nothing was made")
  }

  // MARK: - Bodies

  @Test func longListsInManyFrames() async throws {
    let world = try ChannelWorld()
    var ids: Set<ChannelID> = []
    for _ in 0..<50 { ids.insert(try await world.create()) }
    try world.simulator.add(fault: "body=split:7")
    #expect(try await Set(world.list()) == ids)
  }

  @Test func bodiesThatAreNone() async throws {
    let world = try ChannelWorld()
    let id = try await world.create()
    for (body, text) in [
      ("{}", "its body has no list of channels"), ("<html>", "its body cannot be read at byte 0"),
      (String(repeating: "x", count: ChannelAnswer.bodyBytesMaximum + 1), "its body is longer than"),
    ] {
      try world.simulator.add(fault: "body=raw:\(body)")
      let failure = try #require(await world.failure(of: .list))
      guard case .notUnderstood(200, let fault) = failure.kind else {
        Issue.record("\(failure)")
        continue
      }
      #expect(fault.hasPrefix(text) && !failure.isTemporary)
      world.simulator.removeAllFaults()
    }
    #expect(try await world.list() == [id])
  }
}
