import PushCore
import Testing

@testable import PushStores

/// Which failures of reading a job's devices may be so for good: only those end a job with its time.
@Suite struct ReadingFailureTests {
  private static let silent = RedisClient.Failure(text: "closed by the peer")
  private static let foreign = RedisClient.Failure(text: "WRONGTYPE", isForeignData: true)

  @Test func whatRedisDoesNotAnswer_isOnlyOfNow() throws {
    let id = try #require(ActivityID("ride"))
    let failures = [
      ReadingFailure(DeviceRegistryFailure(Self.silent)), ReadingFailure(DeviceRegistryFailure.busy("changed")),
      ReadingFailure(ActivityRegistryFailure(Self.silent)), ReadingFailure(ActivityRegistryFailure.contended(id)),
      ReadingFailure(Self.silent.failure),
    ]
    for failure in failures { #expect(!failure.isUnreadable && !failure.text.isEmpty, "\(failure)") }
  }

  @Test func anotherProgramsValue_mayBeThereForGood() {
    let failures = [
      ReadingFailure(DeviceRegistryFailure(Self.foreign)), ReadingFailure(ActivityRegistryFailure(Self.foreign)),
      ReadingFailure(Self.foreign.failure), ReadingFailure(SegmentFailure.foreign(key: "key")),
    ]
    for failure in failures { #expect(failure.isUnreadable && !failure.text.isEmpty, "\(failure)") }
  }
}
