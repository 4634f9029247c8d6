import PushCore
import Testing

@testable import PushLane

/// What a lane's slot keeps of a delivery that is finished.
@Suite struct JobSlotTests {
  @Test func largeBodiesAndHeaders_areFreed() {
    var slot = JobSlot()
    slot.metadata.bytes = [UInt8](repeating: 0, count: 128 * 1024)
    slot.job.bytes = [UInt8](repeating: 0, count: 128 * 1024)
    slot.finish()
    #expect(slot.metadata.bytes.capacity == 0 && slot.job.bytes.capacity == 0)
    slot.metadata.bytes = [UInt8](repeating: 0, count: 1024)
    slot.finish()
    #expect(slot.metadata.bytes.capacity >= 1024, "the next delivery uses it")
  }
}
