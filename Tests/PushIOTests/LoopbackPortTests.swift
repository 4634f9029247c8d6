import TestSupport
import Testing

@Suite struct LoopbackPortTests {
  /// Other processes look for ports at the same time.
  @Test func aPortIsGivenOnce() throws {
    #expect(!LoopbackPort.reserve(try LoopbackPort.free()))
  }
}
