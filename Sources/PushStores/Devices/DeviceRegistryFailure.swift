import PushCore

/// Why an operation of the device registry failed.
package enum DeviceRegistryFailure: Error, Hashable, Sendable, CustomStringConvertible {
  /// Redis did not answer, or refused. The operation may have been carried out; repeating it is safe.
  case redis(String)
  /// This version cannot read the data in Redis.
  case unreadable(String)
  /// Conflicting changes each time before it could be stored.
  case busy(String)

  init(_ failure: RedisClient.Failure) {
    self = failure.isForeignData ? .unreadable(failure.text) : .redis(failure.text)
  }

  static func unreadable(_ error: DeviceRecordError, _ keys: RegistryKeys) -> DeviceRegistryFailure {
    .unreadable("a device's record under \(keys.tag)d:… cannot be read: \(error.text)")
  }

  package var description: String {
    switch self {
    case .redis(let text): "redis: \(text)"
    case .unreadable(let text): text
    case .busy(let text): text
    }
  }
}
