import APNsSimulator
import PushCore
import TestSupport
import Testing

/// The maximum number of channels of an app.
@Suite(.timeLimit(.minutes(5)))
struct ChannelVolumeTests {
  /// Requests all of them at once; the client lets them wait for streams.
  private func all(_ operations: [ChannelRequest.Operation], _ world: ChannelWorld) async throws -> [ChannelAnswer] {
    try await withThrowingTaskGroup(of: ChannelAnswer.self) { group in
      for operation in operations { group.addTask { try await world.perform(operation) } }
      var answers: [ChannelAnswer] = []
      for try await answer in group { answers.append(answer) }
      return answers
    }
  }

  @Test func tenThousandAreCreatedListedAndDeleted() async throws {
    let world = try ChannelWorld()
    let maximum = ChannelLimit.apple
    let created = try await all(Array(repeating: .create(.none), count: maximum), world).compactMap { answer in
      if case .created(let id) = answer.content { id } else { nil }
    }
    #expect(Set(created).count == maximum)
    let failure = try #require(await world.failure(of: .create(.none)))
    #expect(failure.kind == .refused(status: 400, reason: .cannotCreateChannelConfig))
    #expect(failure.description.contains("com.example.app in production has its 10000 channels"))
    #expect(failure.description.contains("delete those whose events are over (herald channels list"))
    let listed = try await world.list()
    #expect(listed.count == maximum && Set(listed) == Set(created))
    let deleted = try await all(listed.map { .delete($0) }, world)
    #expect(deleted.count == maximum && deleted.allSatisfy { $0.content == .deleted })
    #expect(try await world.list().isEmpty)
    let ledger = world.simulator.ledger
    #expect(ledger.requests == 2 * maximum + 3, "each was sent once")
    #expect(ledger.connectionsOpened == 1)
    #expect(ledger.connections.allSatisfy { $0.streamsOverLimit == 0 && $0.streamsInFlightMaximum <= 100 })
  }
}
