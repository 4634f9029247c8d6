import Foundation
import PushIO
import PushLane
import Testing

/// `config/schemas/asyncapi.yaml` names every exchange and queue that Herald declares, and no other.
@Suite struct AsyncAPITests {
  private let text: String
  private let topology = Topology()

  init() throws {
    let path = URL(filePath: #filePath).deletingLastPathComponent()
      .appending(path: "../../config/schemas/asyncapi.yaml")
    text = try String(contentsOf: path, encoding: .utf8)
  }

  /// Replaces `{class}`, `{seconds}` and `{wait}` by all their values.
  private func expanded(_ name: String) -> [String] {
    if name.contains("{wait}") {
      return Topology.channelDelaysSeconds.map { name.replacing("{wait}", with: String($0)) }
    }
    guard name.contains("{class}") else { return [name] }
    return ["transactional", "bulk"].flatMap { jobClass in
      topology.retryDelaysSeconds.map {
        name.replacing("{class}", with: jobClass).replacing("{seconds}", with: String($0))
      }
    }
  }

  @Test func exchangesAgree() {
    let documented = Set(text.matches(of: /exchange: \{name: ([^,]+), type: (\w+),/).map { "\($0.1) \($0.2)" })
    let declared = topology.declarations.compactMap { operation in
      if case .declareExchange(let name, let kind, _) = operation { "\(name) \(kind)" } else { nil as String? }
    }
    #expect(documented == Set(declared))
  }

  @Test func queuesAgree() {
    let documented = Set(text.matches(of: /queue: \{name: "?([^,"]+)"?,/).flatMap { expanded(String($0.1)) })
    let declared = topology.declarations.compactMap { operation in
      if case .declareQueue(let name, _) = operation { name } else { nil as String? }
    }
    #expect(documented == Set(declared))
    #expect(declared.count > 10)
  }

  /// A job that comes while the queues are first declared goes back to its producer, not to the dead letters.
  @Test func theDeadLettersAreBoundLast() {
    let bound = topology.declarations.compactMap { operation in
      if case .bind(let queue, _, _) = operation { queue } else { nil as String? }
    }
    #expect(bound.last == topology.undeliveredQueue && bound.filter { $0 == topology.undeliveredQueue }.count == 1)
    #expect(!bound.contains(topology.deadQueue), "its messages are Herald's own")
  }
}
