import PushCore
import PushIO
import PushLane
import PushStores
import TestSupport
import Testing

/// What is published again says so: the broker may have kept the first copy.
@Suite(.serialized, .timeLimit(.minutes(2)))
struct PublishedAgainTests {
  /// Its pages were fixed, and perhaps published, by a delivery that nobody finished.
  @Test func pagesOfAStepThatComesAgain_areMarked() throws {
    let world = try AudienceWorld("again")
    try world.registry.register(0..<1, user: { _ in "u" })
    try world.prepare("again", ordinals: [0])
    for id in ["again", "once"] { try world.publish(id, to: #"{"users":["u"]}"#) }
    try world.world.runUntilEmpty()
    for id in ["again", "once"] {
      #expect(try world.waitForEnd(of: id).summary == ["devices": 1, "accepted": 1])
      #expect(world.children(of: id).map(\.ambiguous) == [id == "again"])
    }
  }
}
