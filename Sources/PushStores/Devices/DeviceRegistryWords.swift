import PushCore
import PushIO

/// The words that records name by number.
extension DeviceRegistry {
  /// Maximum words to look up at once.
  private static let batchWords = 1_000

  func learn(_ numbers: Set<UInt32>, _ entry: DeviceRegistryScope, then: @escaping (DeviceRegistryFailure?) -> Void) {
    learn(numbers.sorted()[...], entry, then)
  }

  private func learn(
    _ numbers: ArraySlice<UInt32>, _ entry: DeviceRegistryScope, _ then: @escaping (DeviceRegistryFailure?) -> Void
  ) {
    guard !numbers.isEmpty else { return then(nil) }
    let part = numbers.prefix(DeviceRegistry.batchWords)
    var arguments = RedisArguments()
    for number in part { arguments.append(DeviceCommit.bytes(number)) }
    run(DeviceScript.words, arguments, in: entry.scope) { [self] result in
      switch result {
      case .failure(let failure):
        then(failure)
      case .success(.array(let texts)) where texts.count == part.count:
        for (number, reply) in zip(part, texts) {
          if let text = reply.text { entry.words.learned(number, text) }
        }
        learn(numbers.dropFirst(part.count), entry, then)
      case .success:
        then(.unreadable("\(entry.keys.words): does something else use this key?"))
      }
    }
  }
}
