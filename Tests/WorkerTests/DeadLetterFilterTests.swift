import PushCore
import PushLane
import Testing

@testable import PushIO
@testable import PushOperations

/// Which dead letters a command means.
@Suite struct DeadLetterFilterTests {
  private func letter(_ id: String) -> DeadLetter {
    let message = AMQPMessage(
      body: Array(#"{"id":"\#(id)","app":"com.example.app"}"#.utf8), isOversized: false, metadata: MessageMetadata(),
      headers: [AMQPArgument("x-herald-reason", .text("invalid"))], deaths: [], tag: 1)
    return DeadLetter(message, position: 1, topology: Topology(prefix: "push"))
  }

  /// Swift would take two ids for one that are equal canonically alone.
  @Test func anIDIsItsBytes() {
    let (composed, decomposed) = ("job-\u{e9}", "job-e\u{301}")
    let filter = DeadLetterFilter(reason: "invalid", app: "com.example.app", id: composed)
    #expect(filter.matches(letter(composed)) && !filter.matches(letter(decomposed)) && !filter.matches(letter("job")))
    #expect(DeadLetterFilter(reason: nil, app: nil, id: nil).matches(letter(decomposed)))
    #expect(!DeadLetterFilter(reason: "failed", app: nil, id: nil).matches(letter(composed)))
    #expect(!DeadLetterFilter(reason: nil, app: "com.example.other", id: nil).matches(letter(composed)))
  }
}
