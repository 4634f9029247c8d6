/// Why what a step needs could not be read.
struct ReadingFailure: Hashable {
  /// For people.
  let text: String
  /// What is stored cannot be read, which may be so for good. false: Redis did not answer, or what is asked is about to change.
  let isUnreadable: Bool

  init(unreadable text: String) {
    self.text = text
    isUnreadable = true
  }

  init(_ failure: DeviceRegistryFailure) {
    text = "\(failure)"
    isUnreadable =
      switch failure {
      case .unreadable: true
      case .redis, .busy: false
      }
  }

  init(_ failure: ActivityRegistryFailure) {
    text = "\(failure)"
    isUnreadable =
      switch failure {
      case .refused, .invalid, .unreadable: true
      case .contended, .redis: false
      }
  }

  init(_ failure: SegmentFailure) {
    text = "\(failure)"
    isUnreadable =
      switch failure {
      case .filter, .unreadable, .foreign: true
      case .redis: false
      }
  }

  /// The same for what may wait for Redis.
  var redis: RedisClient.Failure { RedisClient.Failure(text: text, isForeignData: isUnreadable) }
}
