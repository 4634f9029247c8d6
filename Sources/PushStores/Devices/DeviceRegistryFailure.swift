import PushCore

/// Why the registry of devices could not do or tell something.
package enum DeviceRegistryFailure: Error, Hashable, Sendable, CustomStringConvertible {
  /// Redis did not answer, or refused. What was asked may have been done; done again it comes to the same.
  case redis(String)
  /// What lies in Redis is nothing that this version reads.
  case unreadable(String)
  /// Somebody else changed it each time before it could be stored.
  case busy(String)

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
