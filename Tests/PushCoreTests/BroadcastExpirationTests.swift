import PushCore
import Testing

/// `apns-expiration` of a broadcast, by the channel's storage policy.
@Suite struct BroadcastExpirationTests {
  private let now: Int64 = 1_800_000_000

  private func decide(_ wanted: Int64?, _ storage: StoragePolicy?) -> BroadcastExpiration {
    BroadcastExpiration.decide(wanted: wanted, storage: storage, unixSeconds: now)
  }

  @Test func absentBecomesWhatThePolicyWants() {
    #expect(decide(nil, StoragePolicy.none) == .value(0))
    #expect(decide(nil, .mostRecent) == .value(now + 8 * 3600 - 60))
    #expect(decide(nil, nil) == .value(0), "0 is right for every channel")
  }

  @Test func zeroIsRightForEveryChannel() {
    for storage in [StoragePolicy.none, .mostRecent, nil] { #expect(decide(0, storage) == .value(0)) }
  }

  @Test func aChannelWithoutStorageTakesNoOther() {
    let refusal = "must be 0 for a channel whose storage policy is none, not \(now + 60)"
    #expect(decide(now + 60, StoragePolicy.none) == .refused(refusal))
    #expect(decide(now + 60, .mostRecent) == .value(now + 60))
    #expect(decide(now + 60, nil) == .value(now + 60), "APNs judges where the policy is not known")
  }

  @Test func eightHoursAreTheMost() {
    #expect(decide(now + 28_800, .mostRecent) == .value(now + 28_800))
    for storage in [StoragePolicy.mostRecent, nil] {
      guard case .refused(let rule) = decide(now + 28_801, storage) else {
        Issue.record("more than eight hours passed")
        continue
      }
      #expect(rule.contains("8 hours") && rule.contains("\(now + 28_801)"))
    }
  }
}
